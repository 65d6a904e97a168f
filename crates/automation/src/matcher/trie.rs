//! The paths of a segment as a tree of names, so that an event is read once, and only where some filter looks.

use serde_json::Value;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    path: Option<u32>,
    children: Children,
}

enum Children {
    Few(Vec<(Box<str>, u32)>),
    Many(HashMap<Box<str>, u32, foldhash::fast::RandomState>),
}

/// Up to this many names are compared one by one.
const FEW: usize = 8;
const ROOT: u32 = 0;

/// What an event has at the paths of a trie.
#[derive(Default)]
pub(super) struct Found<'e> {
    /// Path and value. With arrays on the way, a path can be here several times.
    pub(super) values: Vec<(u32, &'e Value)>,
    /// The nodes at which the event has an array through which some path goes on.
    pub(super) arrays: Vec<u32>,
}

impl Trie {
    pub(super) fn of<'p>(paths: impl Iterator<Item = &'p [Box<str>]>) -> Self {
        let mut trie = Self { nodes: vec![Node::default()] };
        for (path, names) in (0..).zip(paths) {
            let mut at = ROOT;
            for name in names {
                at = trie.child(at, name).unwrap_or_else(|| trie.grow(at, name));
            }
            if let Some(node) = trie.nodes.get_mut(at as usize) {
                node.path = Some(path);
            }
        }
        trie
    }

    pub(super) fn read<'e>(&self, event: &'e Value) -> Found<'e> {
        let mut found = Found::default();
        self.below(ROOT, event, &mut found);
        found
    }

    /// Whether a path goes on through the node.
    pub(super) fn through(&self, node: u32, names: &[Box<str>]) -> bool {
        let mut at = ROOT;
        for name in names {
            if at == node {
                return true;
            }
            match self.child(at, name) {
                Some(child) => at = child,
                None => return false,
            }
        }
        false
    }

    fn below<'e>(&self, at: u32, value: &'e Value, found: &mut Found<'e>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    if let Some(child) = self.child(at, name) {
                        self.visit(child, value, found);
                    }
                }
            }
            Value::Array(elements) => {
                if !found.arrays.contains(&at) {
                    found.arrays.push(at);
                }
                elements.iter().for_each(|element| self.below(at, element, found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn visit<'e>(&self, at: u32, value: &'e Value, found: &mut Found<'e>) {
        let Some(node) = self.nodes.get(at as usize) else { return };
        if let Some(path) = node.path {
            found.values.push((path, value));
        }
        if !node.children.is_empty() {
            self.below(at, value, found);
        }
    }

    fn child(&self, at: u32, name: &str) -> Option<u32> {
        match &self.nodes.get(at as usize)?.children {
            Children::Few(children) => children.iter().find(|(child, _)| **child == *name).map(|(_, child)| *child),
            Children::Many(children) => children.get(name).copied(),
        }
    }

    fn grow(&mut self, at: u32, name: &str) -> u32 {
        let child = self.nodes.len() as u32;
        self.nodes.push(Node::default());
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.children.insert(name.into(), child);
        }
        child
    }
}

impl Default for Children {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Children {
    fn is_empty(&self) -> bool {
        match self {
            Self::Few(children) => children.is_empty(),
            Self::Many(children) => children.is_empty(),
        }
    }

    fn insert(&mut self, name: Box<str>, child: u32) {
        match self {
            Self::Few(children) if children.len() < FEW => children.push((name, child)),
            Self::Few(children) => {
                let mut many: HashMap<_, _, _> = std::mem::take(children).into_iter().collect();
                many.insert(name, child);
                *self = Self::Many(many);
            }
            Self::Many(children) => {
                children.insert(name, child);
            }
        }
    }
}
