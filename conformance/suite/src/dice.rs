//! The only source of chance: a seed decides everything that is left to chance.

/// Splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Returns the dice of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Returns other dice, which depend on these, but not the other way round.
    pub fn fork(&mut self) -> Dice {
        Dice(self.throw())
    }

    /// Returns any number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = self.0;
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Returns a number in `least..most`.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.throw() % (most - least)
    }

    /// Returns a number in `0..most`.
    pub fn below(&mut self, most: usize) -> usize {
        (self.throw() % most as u64) as usize
    }

    /// Returns true so many times in a thousand, on average.
    pub fn chance(&mut self, in_a_thousand: u64) -> bool {
        self.throw() % 1000 < in_a_thousand
    }
}
