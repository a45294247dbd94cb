//! Beginnings of ids as ranges, so that a store can look them up in order.

use subagent_model::SubagentId;
use uuid::Uuid;

/// The ids that begin with `text`: lowest and highest. `None` when no id can. Case and hyphens do not matter.
pub fn ids(text: &str) -> Option<(SubagentId, SubagentId)> {
    let (mut low, mut digits) = (0_u128, 0_u32);
    for character in text.chars().filter(|c| *c != '-') {
        low = (low << 4) | u128::from(character.to_digit(16)?);
        digits += 1;
        if digits > 32 {
            return None;
        }
    }
    if digits == 0 {
        return None;
    }
    let open = 4 * (32 - digits);
    let low = low << open;
    let high = if open == 0 { low } else { low | ((1_u128 << open) - 1) };
    Some((SubagentId::from_uuid(Uuid::from_u128(low)), SubagentId::from_uuid(Uuid::from_u128(high))))
}

#[cfg(test)]
mod tests {
    use super::ids;

    #[test]
    fn rec_08_a_beginning_is_a_range() {
        let (low, high) = ids("01890a5d-a").unwrap();
        assert_eq!(low.to_string(), "01890a5d-a000-0000-0000-000000000000");
        assert_eq!(high.to_string(), "01890a5d-afff-ffff-ffff-ffffffffffff");
        let whole = "01890A5DAC967B0B9C6B6C6F6F6F6F6F";
        let (low, high) = ids(whole).unwrap();
        assert_eq!(low, high);
        assert!(ids("").is_none() && ids("-").is_none() && ids("g").is_none());
        assert!(ids(&format!("{whole}0")).is_none());
    }
}
