//! Problems in the words and the shape that users of older tools know.

use fbc::{Problem, Stage};

/// Tells errors as one text: a line each, and those of the model as a tree.
pub fn message<'a>(errors: impl Iterator<Item = &'a Problem>) -> String {
    let mut lines = Vec::new();
    let mut root = Node::default();
    for error in errors {
        if error.stage == Stage::Model {
            let scope =
                [("package", &error.scope.package), ("channel", &error.scope.channel), ("bundle", &error.scope.bundle)];
            let mut node = &mut root;
            for (kind, name) in scope {
                if let Some(name) = name {
                    node = node.child(format!("invalid {kind} {name:?}"));
                }
            }
            node.children.push(Node { title: error.message.clone(), children: Vec::new() });
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
}

impl Node {
    fn child(&mut self, title: String) -> &mut Node {
        let index = self.children.iter().position(|child| child.title == title).unwrap_or_else(|| {
            self.children.push(Node { title, children: Vec::new() });
            self.children.len() - 1
        });
        &mut self.children[index]
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
