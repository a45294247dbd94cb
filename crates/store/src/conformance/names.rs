//! Names that people type.

use std::ops::Deref;

use subagent_model::{Handle, SubagentId};
use uuid::Uuid;

use super::Samples;
use crate::{Resolved, Store};

/// REC-08: an exact handle or id, else a beginning that only one has; several candidates are told, never guessed.
pub fn names_are_resolved<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let mut born = |id: &str, handle: &str| {
        let id: SubagentId = id.parse().unwrap();
        let handle = Handle::from(handle);
        let birth = samples.birth_with(|birth| {
            birth.id = id;
            birth.root = id;
            birth.handle = handle.clone();
        });
        Samples::commit(&*store, birth);
        (id, handle)
    };
    let red = born("01890a5d-ac96-774b-bcce-b302099a8057", "k7q2mx");
    let green = born("01890a5d-ac97-774b-bcce-b302099a8058", "k7");
    let blue = born("01890b00-0000-7000-8000-000000000000", "0189zz");
    let pink = born("f0000000-0000-7000-8000-000000000000", "mmmmmm");
    let resolve = |name: &str| store.resolve(name).unwrap();
    // Exact ones, even where they begin another.
    assert_eq!(resolve("k7"), Resolved::One(green.0));
    assert_eq!(resolve("k7q2mx"), Resolved::One(red.0));
    assert_eq!(resolve("01890a5d-ac96-774b-bcce-b302099a8057"), Resolved::One(red.0));
    assert_eq!(resolve("01890A5DAC96774BBCCEB302099A8057"), Resolved::One(red.0));
    // Beginnings.
    assert_eq!(resolve("k7q"), Resolved::One(red.0));
    assert_eq!(resolve("m"), Resolved::One(pink.0));
    assert_eq!(resolve("F"), Resolved::One(pink.0));
    assert_eq!(resolve("01890b"), Resolved::One(blue.0));
    assert_eq!(resolve("01890a5d-ac96"), Resolved::One(red.0));
    assert_eq!(resolve("01890a5dac97"), Resolved::One(green.0));
    // Several: newest first; by id and by handle together, each once.
    assert_eq!(resolve("k"), Resolved::Many(vec![green.clone(), red.clone()]));
    assert_eq!(resolve("01890a5d"), Resolved::Many(vec![green.clone(), red.clone()]));
    assert_eq!(resolve("0189"), Resolved::Many(vec![blue.clone(), green, red]));
    assert_eq!(resolve("0189z"), Resolved::One(blue.0));
    // Nothing.
    for nothing in [
        "",
        "-",
        "x",
        "k7q2mxx",
        "01890c",
        "%",
        "_",
        "k*",
        "\u{10ffff}",
        "01890a5d-ac96-774b-bcce-b302099a80570",
    ] {
        assert_eq!(resolve(nothing), Resolved::None, "{nothing:?}");
    }
    for number in 0..30_u128 {
        let id = SubagentId::from_uuid(Uuid::from_u128((0xabc << 116) | number));
        Samples::commit(
            &*store,
            samples.birth_with(|birth| {
                birth.id = id;
                birth.root = id;
                birth.handle = Handle(format!("zz{number:03}"));
            }),
        );
    }
    for (name, most) in [("abc", 10), ("zz", 10), ("zz00", 10), ("zz02", 10)] {
        let Resolved::Many(candidates) = resolve(name) else { panic!("{name} is ambiguous") };
        assert_eq!(candidates.len(), most, "{name}");
        assert!(candidates.is_sorted_by(|a, b| a.0 > b.0));
    }
    assert!(matches!(resolve("zz017"), Resolved::One(_)));
}
