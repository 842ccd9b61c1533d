//! Formats problems in the wording and layout of older tools.

use std::collections::HashMap;

use fbc::{Problem, ProblemStage, step_counter};

/// Formats errors as one text: a line each, and those of the model as a tree.
pub fn message<'a>(errors: impl Iterator<Item = &'a Problem>) -> String {
    let mut lines = Vec::new();
    let mut root = Node::default();
    for error in errors.filter(|error| error.stage != ProblemStage::Spelling) {
        if error.stage == ProblemStage::Model {
            let scope =
                [("package", &error.scope.package), ("channel", &error.scope.channel), ("bundle", &error.scope.bundle)];
            let mut node = &mut root;
            for (kind, name) in scope {
                if let Some(name) = name {
                    node = node.branch(format!("invalid {kind} {name:?}"));
                }
            }
            node.children.push(Node::leaf(error.message.clone()));
        } else {
            lines.push(error.message.clone());
        }
    }
    if !root.children.is_empty() {
        let mut text = String::from("invalid index:");
        root.print("", &mut text);
        lines.push(text);
    }
    lines.join("\n")
}

#[derive(Default)]
struct Node {
    title: String,
    children: Vec<Node>,
    /// The children that have children, by title.
    branches: HashMap<String, usize>,
}

impl Node {
    fn leaf(title: String) -> Node {
        Node { title, ..Node::default() }
    }

    fn branch(&mut self, title: String) -> &mut Node {
        step_counter::step();
        let number = *self.branches.entry(title).or_insert_with_key(|title| {
            self.children.push(Node::leaf(title.clone()));
            self.children.len() - 1
        });
        &mut self.children[number]
    }

    fn print(&self, prefix: &str, out: &mut String) {
        for (i, child) in self.children.iter().enumerate() {
            let last = i + 1 == self.children.len();
            let (branch, below) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
            out.push_str(&format!("\n{prefix}{branch}{}", child.title));
            if !child.children.is_empty() {
                out.push(':');
            }
            child.print(&format!("{prefix}{below}"), out);
        }
    }
}
