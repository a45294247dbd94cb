//! A field with three answers. Left out, empty and a value are different things, and stay apart from the file to the
//! child: a filter made from a field that nobody wrote once denied everything.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What was said about a field. In JSON: absent, `null`, or the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Given<T> {
    /// Nothing was said: the caller or the default decides.
    #[default]
    Omitted,
    /// It was said that there is none.
    Nothing,
    /// This was said.
    Value(T),
}

impl<T> Given<T> {
    /// True when nothing was said.
    pub fn is_omitted(&self) -> bool {
        matches!(self, Self::Omitted)
    }

    /// True when it was said that there is none.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The value, if one was said.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Omitted | Self::Nothing => None,
        }
    }

    /// The same answer, borrowed.
    pub fn as_ref(&self) -> Given<&T> {
        match self {
            Self::Omitted => Given::Omitted,
            Self::Nothing => Given::Nothing,
            Self::Value(value) => Given::Value(value),
        }
    }

    /// The same answer about something else.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Given<U> {
        match self {
            Self::Omitted => Given::Omitted,
            Self::Nothing => Given::Nothing,
            Self::Value(value) => Given::Value(change(value)),
        }
    }

    /// This answer, or the other where nothing was said.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_omitted() { other } else { self }
    }
}

impl<T> From<T> for Given<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

/// Omitted cannot be written as a value: a field of this type has `skip_serializing_if = "Given::is_omitted"`.
impl<T: Serialize> Serialize for Given<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Omitted | Self::Nothing => serializer.serialize_none(),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

/// An absent field is omitted by `serde(default)`; what is there and null is nothing.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map_or(Self::Nothing, Self::Value))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::Given;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        #[serde(default, skip_serializing_if = "Given::is_omitted")]
        it: Given<Vec<u8>>,
    }

    #[test]
    fn the_three_answers_stay_apart_in_json() {
        for (it, json) in [
            (Given::Omitted, "{}"),
            (Given::Nothing, r#"{"it":null}"#),
            (Given::Value(vec![]), r#"{"it":[]}"#),
        ] {
            let holder = Holder { it };
            assert_eq!(serde_json::to_string(&holder).unwrap(), json);
            assert_eq!(serde_json::from_str::<Holder>(json).unwrap(), holder);
        }
    }

    #[test]
    fn the_second_answer_counts_only_where_the_first_is_missing() {
        assert_eq!(Given::Omitted.or(Given::Value(1)), Given::Value(1));
        assert_eq!(Given::Nothing.or(Given::Value(1)), Given::Nothing);
        assert_eq!(Given::Value(2).or(Given::Nothing), Given::Value(2));
    }
}
