//! Agent types and providers.

use axum::Json;
use axum::extract::{Query, State};
use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::Deserialize;
use subagent_model::agents::TypeList;

use super::{App, Params};
use crate::answer::Answer;
use crate::caller::From as CallerFrom;

/// Where and by what name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypesQuery {
    /// The directory in which they would be asked for: absolute.
    #[schemars(with = "String")]
    cwd: Utf8PathBuf,
    /// The `PATH` on which the programs of providers are looked for.
    path: Option<String>,
    /// Only this type, with its whole definition.
    name: Option<String>,
}

pub(crate) async fn types(
    State(app): App,
    from: CallerFrom,
    query: Params<TypesQuery>,
) -> Answer<Json<TypeList>> {
    let Query(query) = query?;
    Ok(Json(app.runtime.types(&from.caller, query.cwd, query.path, query.name.as_deref()).await?))
}
