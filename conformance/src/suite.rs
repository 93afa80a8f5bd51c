//! Everything that is judged.

use crate::case::{self, Case};
use crate::scene::{self, Scene};
use std::path::Path;

/// Cases and scenes.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// What one language does at a time.
    pub cases: Vec<Case>,
    /// What several parts play.
    pub scenes: Vec<Scene>,
}

impl Suite {
    /// Loads all cases and scenes.
    ///
    /// # Errors
    ///
    /// Says which file, case or scene cannot be read.
    pub fn load(root: &Path) -> Result<Self, String> {
        Ok(Self { cases: case::load(root)?, scenes: scene::load(root)? })
    }

    /// Keeps those whose names are wanted.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.cases.retain(|case| wanted(&case.name));
        self.scenes.retain(|scene| wanted(&scene.name));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cases.len() + self.scenes.len()
    }

    /// Whether there is nothing to judge.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names and reasons.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let cases = self.cases.iter().map(|case| (case.name.as_str(), case.why.as_str()));
        cases.chain(self.scenes.iter().map(|scene| (scene.name.as_str(), scene.why.as_str())))
    }
}
