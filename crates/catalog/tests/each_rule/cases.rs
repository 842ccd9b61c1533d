//! For each rule a catalog that violates it, and a similar one that does not.

/// Texts of [`VALID`], and their replacements.
pub(super) type Changes = &'static [(&'static str, &'static str)];

pub(super) struct Case {
    pub(super) rule: &'static str,
    pub(super) breaks: Changes,
    /// The position of the problem, and its message.
    pub(super) place: &'static str,
    pub(super) message: &'static str,
    /// A similar change that is valid.
    pub(super) passes: Changes,
}

pub(super) const CASES: &[Case] = &[
    Case {
        rule: "package-named",
        breaks: &[("name: foo\ndefault", "name: ''\ndefault")],
        place: "1:1",
        message: "config contains package with no name",
        passes: &[("name: foo\ndefault", "name: \"foo\"\ndefault")],
    },
    Case {
        rule: "package-unique",
        breaks: &[(
            "---\nschema: olm.channel",
            "---\nschema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel",
        )],
        place: "6:7",
        message: "duplicate package \"foo\"",
        passes: &[("---\nschema: olm.channel", "---\nschema: example.package\nname: foo\n---\nschema: olm.channel")],
    },
    Case {
        rule: "package-name-label",
        breaks: &[("name: foo\ndefault", "name: Foo\ndefault")],
        place: "2:7",
        message: "invalid package name \"Foo\": [a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')]",
        passes: &[
            ("name: foo\ndefault", "name: fooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo0\ndefault"),
            ("package: foo\n", "package: fooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo0\n"),
            ("package: foo\n", "package: fooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo0\n"),
            ("package: foo\n", "package: fooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo0\n"),
            ("package: foo\n", "package: fooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo0\n"),
            ("packageName: foo,", "packageName: fooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo0,"),
            ("packageName: foo,", "packageName: fooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo0,"),
        ],
    },
    Case {
        rule: "channel-package-known",
        breaks: &[("package: foo\nname: stable", "package: fooo\nname: stable")],
        place: "6:10",
        message: "unknown package \"fooo\" for channel \"stable\"",
        passes: &[("package: foo\nname: stable", "package: 'foo'\nname: stable")],
    },
    Case {
        rule: "channel-named",
        breaks: &[("name: stable\nentries", "name: ''\nentries")],
        place: "5:1",
        message: "package \"foo\" contains channel with no name",
        passes: &[("name: stable\nentries", "name: ' '\nentries"), ("defaultChannel: stable", "defaultChannel: ' '")],
    },
    Case {
        rule: "channel-unique",
        breaks: &[(
            "---\nschema: olm.bundle",
            "---\nschema: olm.channel\npackage: foo\nname: stable\nentries: [{name: foo.v1.0.0}]\n---\nschema: olm.bundle",
        )],
        place: "15:7",
        message: "package \"foo\" has duplicate channel \"stable\"",
        passes: &[(
            "---\nschema: olm.bundle",
            "---\nschema: olm.channel\npackage: foo\nname: Stable\nentries: [{name: foo.v1.0.0}]\n---\nschema: olm.bundle",
        )],
    },
    Case {
        rule: "channel-entry-unique",
        breaks: &[("- name: foo.v1.0.0\n", "- name: foo.v1.0.0\n- name: foo.v1.0.0\n")],
        place: "10:9",
        message: "invalid package \"foo\", channel \"stable\": duplicate entry \"foo.v1.0.0\"",
        passes: &[(
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n",
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n  skips: [foo.v1.0.0, foo.v1.0.0]\n",
        )],
    },
    Case {
        rule: "bundle-package-known",
        breaks: &[("package: foo\nname: foo.v1.0.0", "package: fo\nname: foo.v1.0.0")],
        place: "14:10",
        message: "unknown package \"fo\" for bundle \"foo.v1.0.0\"",
        passes: &[("package: foo\nname: foo.v1.0.0", "package: 'foo'\nname: foo.v1.0.0")],
    },
    Case {
        rule: "bundle-unique",
        breaks: &[("name: foo.v2.0.0\nimage", "name: foo.v1.0.0\nimage")],
        place: "23:7",
        message: "package \"foo\" has duplicate bundle \"foo.v1.0.0\"",
        passes: &[
            ("name: foo.v2.0.0\nimage", "name: foo.V1.0.0\nimage"),
            ("- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n", "- name: foo.V1.0.0\n  replaces: foo.v1.0.0\n"),
        ],
    },
    Case {
        rule: "property-values",
        breaks: &[(
            "  value: {packageName: foo, version: 2.0.0}\n",
            "  value: {packageName: foo, version: 2.0.0}\n- type: olm.gvk\n  value: {group: 1, kind: Foo, version: v1}\n",
        )],
        place: "29:18",
        message: "parse properties for bundle \"foo.v2.0.0\": parse property[1] of type \"olm.gvk\": json: cannot unmarshal number into field \"properties[1].value.group\" of type string",
        passes: &[(
            "  value: {packageName: foo, version: 2.0.0}\n",
            "  value: {packageName: foo, version: 2.0.0}\n- type: example.gvk\n  value: {group: 1, kind: Foo, version: v1}\n",
        )],
    },
    Case {
        rule: "bundle-package-property",
        breaks: &[(
            "  value: {packageName: foo, version: 2.0.0}\n",
            "  value: {packageName: foo, version: 2.0.0}\n- type: olm.package\n  value: {packageName: foo, version: 2.0.0}\n",
        )],
        place: "28:3",
        message: "package \"foo\" bundle \"foo.v2.0.0\" must have exactly 1 \"olm.package\" property, found 2",
        passes: &[(
            "  value: {packageName: foo, version: 2.0.0}\n",
            "  value: {packageName: foo, version: 2.0.0}\n- type: olm.package.required\n  value: {packageName: foo, versionRange: <9.0.0}\n",
        )],
    },
    Case {
        rule: "bundle-image-pull-spec",
        breaks: &[("r.io/foo:v1", "r.io/Foo:v1")],
        place: "16:8",
        message: "package \"foo\" bundle \"foo.v1.0.0\" image: invalid image pull spec \"r.io/Foo:v1\": invalid reference format: repository name must be lowercase",
        passes: &[("r.io/foo:v1", "r.io/foo:V1")],
    },
    Case {
        rule: "related-image-pull-spec",
        breaks: &[("r.io/main:v2", "r.io/main:v2:v3")],
        place: "29:23",
        message: "package \"foo\" bundle \"foo.v2.0.0\" relatedImages[0].image: invalid image pull spec \"r.io/main:v2:v3\": invalid reference format",
        passes: &[("r.io/main:v2", "r.io:5000/main:v2")],
    },
    Case {
        rule: "bundle-version",
        breaks: &[("version: 1.0.0", "version: v1.0.0")],
        place: "19:38",
        message: "error parsing bundle \"foo.v1.0.0\" version \"v1.0.0\": Invalid character(s) found in major number \"v1\"",
        passes: &[("version: 1.0.0", "version: 1.0.0-rc.1+build")],
    },
    Case {
        rule: "bundle-release",
        breaks: &[(
            "  value: {packageName: foo, version: 2.0.0}\n",
            "  value: {packageName: foo, version: 2.0.0, release: '01'}\n",
        )],
        place: "27:54",
        message: "error parsing bundle \"foo.v2.0.0\" release version \"01\": invalid release \"01\": segment 0: Numeric PreRelease version must not contain leading zeroes \"01\"",
        passes: &[
            (
                "  value: {packageName: foo, version: 2.0.0}\n",
                "  value: {packageName: foo, version: 2.0.0, release: '1.a'}\n",
            ),
            ("name: foo.v2.0.0\nimage", "name: foo-v2.0.0-1.a\nimage"),
            ("- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n", "- name: foo-v2.0.0-1.a\n  replaces: foo.v1.0.0\n"),
        ],
    },
    Case {
        rule: "bundle-in-channel",
        breaks: &[("- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n", "")],
        place: "21:7",
        message: "package \"foo\", bundle \"foo.v2.0.0\" not found in any channel entries",
        passes: &[
            ("- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n", ""),
            (
                "---\nschema: olm.bundle",
                "---\nschema: olm.channel\npackage: foo\nname: fast\nentries: [{name: foo.v2.0.0}]\n---\nschema: olm.bundle",
            ),
        ],
    },
    Case {
        rule: "entry-has-bundle",
        breaks: &[("  replaces: foo.v1.0.0\n", "  replaces: foo.v1.0.0\n- name: foo.v3.0.0\n  replaces: foo.v2.0.0\n")],
        place: "12:9",
        message: "no olm.bundle blobs found in package \"foo\" for olm.channel entries [foo.v3.0.0]",
        passes: &[("  replaces: foo.v1.0.0\n", "  replaces: foo.v1.0.0\n  skips: [foo.v1.5.0]\n")],
    },
    Case {
        rule: "deprecation-package-known",
        breaks: &[("package: foo\nentries:\n- ref", "package: bar\nentries:\n- ref")],
        place: "32:10",
        message: "cannot apply deprecations to an unknown package \"bar\"",
        passes: &[("package: foo\nentries:\n- ref", "package: 'foo'\nentries:\n- ref")],
    },
    Case {
        rule: "deprecations-unique",
        breaks: &[(
            "  message: old\n",
            "  message: old\n---\nschema: olm.deprecations\npackage: foo\nentries: [{reference: {schema: olm.package}, message: older}]\n",
        )],
        place: "38:10",
        message: "expected a maximum of one deprecation per package: \"foo\"",
        passes: &[("  message: old\n", "  message: old\n- reference: {schema: olm.package}\n  message: older\n")],
    },
    Case {
        rule: "deprecation-reference",
        breaks: &[(
            "- reference: {schema: olm.bundle, name: foo.v1.0.0}\n",
            "- reference: {schema: olm.bundle, name: foo.v1.0.1}\n",
        )],
        place: "34:41",
        message: "cannot deprecate bundle \"foo.v1.0.1\" for package \"foo\": bundle not found",
        passes: &[(
            "- reference: {schema: olm.bundle, name: foo.v1.0.0}\n",
            "- reference: {schema: olm.channel, name: stable}\n",
        )],
    },
    Case {
        rule: "default-channel-set",
        breaks: &[("defaultChannel: stable\n", "")],
        place: "2:7",
        message: "default channel must be set",
        passes: &[("defaultChannel: stable\n", "defaultchannel: stable\n")],
    },
    Case {
        rule: "package-has-channels",
        breaks: &[("---\nschema: olm.channel", "---\nschema: example.channel"), ("defaultChannel: stable\n", "")],
        place: "2:7",
        message: "package must contain at least one channel",
        passes: &[(
            "---\nschema: olm.channel",
            "---\nschema: olm.channel\npackage: foo\nname: fast\nentries: [{name: foo.v2.0.0}]\n---\nschema: olm.channel",
        )],
    },
    Case {
        rule: "channel-has-entries",
        breaks: &[(
            "---\nschema: olm.bundle",
            "---\nschema: olm.channel\npackage: foo\nname: fast\nentries: []\n---\nschema: olm.bundle",
        )],
        place: "15:7",
        message: "channel must contain at least one bundle",
        passes: &[(
            "---\nschema: olm.bundle",
            "---\nschema: olm.channel\npackage: foo\nname: fast\nentries: [{name: foo.v1.0.0}]\n---\nschema: olm.bundle",
        )],
    },
    Case {
        rule: "channel-single-head",
        breaks: &[("  replaces: foo.v1.0.0\n", "")],
        place: "9:9",
        message: "multiple channel heads found in graph: foo.v1.0.0, foo.v2.0.0",
        passes: &[("  replaces: foo.v1.0.0\n", "  skips: [foo.v1.0.0]\n")],
    },
    Case {
        rule: "channel-chain",
        breaks: &[
            (
                "---\nschema: olm.bundle",
                "---\nschema: olm.bundle\npackage: foo\nname: foo.v3.0.0\nimage: r.io/foo:v3\nproperties: [{type: olm.package, value: {packageName: foo, version: 3.0.0}}]\n---\nschema: olm.bundle",
            ),
            (
                "- name: foo.v1.0.0\n",
                "- name: foo.v1.0.0\n  replaces: foo.v2.0.0\n- {name: foo.v3.0.0, replaces: foo.v2.0.0}\n",
            ),
        ],
        place: "9:9",
        message: "detected cycle in replaces chain of upgrade graph: foo.v2.0.0 -> foo.v1.0.0 -> foo.v2.0.0",
        passes: &[
            (
                "---\nschema: olm.bundle",
                "---\nschema: olm.bundle\npackage: foo\nname: foo.v3.0.0\nimage: r.io/foo:v3\nproperties: [{type: olm.package, value: {packageName: foo, version: 3.0.0}}]\n---\nschema: olm.bundle",
            ),
            (
                "- name: foo.v1.0.0\n",
                "- name: foo.v1.0.0\n  replaces: foo.v0.9.0\n- {name: foo.v3.0.0, replaces: foo.v2.0.0}\n",
            ),
        ],
    },
    Case {
        rule: "bundle-named",
        breaks: &[
            ("name: foo.v1.0.0\nimage", "name: ''\nimage"),
            ("- name: foo.v1.0.0\n", "- name: ''\n"),
            (
                "- reference: {schema: olm.bundle, name: foo.v1.0.0}\n",
                "- reference: {schema: olm.channel, name: stable}\n",
            ),
        ],
        place: "9:3",
        message: "name must be set",
        passes: &[
            ("name: foo.v1.0.0\nimage", "name: ' '\nimage"),
            ("- name: foo.v1.0.0\n", "- name: ' '\n"),
            (
                "- reference: {schema: olm.bundle, name: foo.v1.0.0}\n",
                "- reference: {schema: olm.channel, name: stable}\n",
            ),
            ("  replaces: foo.v1.0.0", "  replaces: ' '"),
        ],
    },
    Case {
        rule: "bundle-release-name",
        breaks: &[(
            "  value: {packageName: foo, version: 2.0.0}\n",
            "  value: {packageName: foo, version: 2.0.0, release: '1'}\n",
        )],
        place: "23:7",
        message: "name \"foo.v2.0.0\" does not match normalized name \"foo-v2.0.0-1\"",
        passes: &[
            (
                "  value: {packageName: foo, version: 2.0.0}\n",
                "  value: {packageName: foo, version: 2.0.0, release: '1'}\n",
            ),
            ("name: foo.v2.0.0\nimage", "name: foo-v2.0.0-1\nimage"),
            ("- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n", "- name: foo-v2.0.0-1\n  replaces: foo.v1.0.0\n"),
        ],
    },
    Case {
        rule: "entry-skips",
        breaks: &[(
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n",
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n  skips: [foo.v0.9.0, '']\n",
        )],
        place: "12:23",
        message: "skip[1] is empty",
        passes: &[(
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n",
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n  skips: [foo.v0.9.0, ' ']\n",
        )],
    },
    Case {
        rule: "entry-skip-range",
        breaks: &[(
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n",
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n  skipRange: older\n",
        )],
        place: "12:14",
        message: "invalid skipRange \"older\": Could not get version from string: \"older\"",
        passes: &[(
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n",
            "- name: foo.v2.0.0\n  replaces: foo.v1.0.0\n  skipRange: '>=1.0.0 <2.0.0 || 0.x'\n",
        )],
    },
    Case {
        rule: "bundle-image-set",
        breaks: &[("image: r.io/foo:v1\n", "")],
        place: "15:7",
        message: "bundle image must be set",
        passes: &[
            ("image: r.io/foo:v1\n", ""),
            (
                "  value: {packageName: foo, version: 1.0.0}\n",
                "  value: {packageName: foo, version: 1.0.0}\n- type: olm.bundle.object\n  value: {data: e30=}\n",
            ),
        ],
    },
    Case {
        rule: "deprecation-message",
        breaks: &[("  message: old\n", "  message: ''\n")],
        place: "34:3",
        message: "invalid deprecation: message must be set",
        passes: &[("  message: old\n", "  message: ' '\n")],
    },
    Case {
        rule: "package-versions-unique",
        breaks: &[("version: 2.0.0", "version: 1.0.0")],
        place: "27:38",
        message: "duplicate versions found in bundles: [{1.0.0: [foo.v1.0.0, foo.v2.0.0]}]",
        passes: &[("version: 2.0.0", "version: 1.0.0-1")],
    },
];
