//! The bundles of all catalogs, indexed, in the order clusters prefer.

mod matching;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use catalog::chain::{self, EntryEdge};
use catalog::channel::ChannelView;
use catalog::needs::Need;
use fbc::blob::ChannelEntry;
use fbc::version::Version;

use crate::error::PoolError;
use crate::input::{CandidateBundle, CatalogInput};
use olm_cel::{CelRule, RuleError};

/// The index of a channel member.
pub type MemberIndex = usize;

/// A channel member of a catalog.
#[derive(Debug, Clone, Copy)]
pub struct PoolMember<'a> {
    /// The index of its catalog.
    pub source: usize,
    pub bundle: &'a CandidateBundle,
    pub channel: &'a str,
    /// Its channel entry.
    pub entry: &'a ChannelEntry,
    /// The index of its channel.
    group: usize,
}

/// A channel of a catalog.
struct Group<'a> {
    source: usize,
    package: &'a str,
    channel: &'a str,
    default: bool,
    deprecation: Option<&'a str>,
    members: Vec<MemberIndex>,
    /// Its members in the order in which clusters choose, computed on first use.
    chain: RefCell<Option<MemberChain>>,
    /// The upgrade edges of those, computed on first use.
    edges: OnceCell<Edges>,
}

/// The upgrade edges between the members of a channel, by their places in its order.
#[derive(Default)]
struct Edges {
    places: HashMap<MemberIndex, usize>,
    /// The members that replace or skip a bundle.
    by_name: HashMap<Box<str>, Vec<usize>>,
    /// The members with a skip range.
    ranged: Vec<usize>,
}

/// The members of a channel in order, or the reason why it has none.
pub type MemberChain = Rc<Result<Vec<MemberIndex>, PoolError>>;
type Matches = Rc<Result<Vec<MemberIndex>, PoolError>>;
/// The catalog, package and channel of a Subscription.
type ChannelKey = (usize, String, Option<String>);

/// The catalogs that a namespace can use.
pub struct Pool<'a> {
    pub sources: &'a [CatalogInput],
    /// The namespace that is resolved.
    pub namespace: &'a str,
    members: Vec<PoolMember<'a>>,
    groups: Vec<Group<'a>>,
    by_package: HashMap<&'a str, Vec<MemberIndex>>,
    by_api: HashMap<&'a [String; 3], Vec<MemberIndex>>,
    by_label: HashMap<&'a str, Vec<MemberIndex>>,
    matches: RefCell<HashMap<String, Matches>>,
    /// The total number of members in `matches`.
    cached: Cell<usize>,
    candidates: RefCell<HashMap<(String, Option<usize>), Matches>>,
    rules: RefCell<HashMap<String, Rc<Result<CelRule, RuleError>>>>,
    /// The channels by catalog, package and channel name.
    channels: RefCell<HashMap<ChannelKey, Rc<Vec<usize>>>>,
    /// The remaining work budget.
    work: Cell<u64>,
    /// Whether a query reached a limit.
    gave_up: Cell<bool>,
}

/// The work budget of all queries together: some seconds. Real catalogs need a thousandth of it.
const WORK_BUDGET: u64 = 300_000_000;

impl<'a> Pool<'a> {
    /// Indexes the catalogs.
    pub fn new(sources: &'a [CatalogInput], namespace: &'a str) -> Pool<'a> {
        let mut pool = Pool {
            sources,
            namespace,
            members: Vec::new(),
            groups: Vec::new(),
            by_package: HashMap::new(),
            by_api: HashMap::new(),
            by_label: HashMap::new(),
            matches: RefCell::default(),
            candidates: RefCell::default(),
            rules: RefCell::default(),
            channels: RefCell::default(),
            gave_up: Cell::new(false),
            work: Cell::new(WORK_BUDGET),
            cached: Cell::new(0),
        };
        for (number, source) in sources.iter().enumerate() {
            let bundles: HashMap<(&str, &str), &CandidateBundle> =
                source.bundles.iter().map(|bundle| ((&*bundle.package, &*bundle.name), bundle)).collect();
            for channel in &source.channels {
                let group = pool.groups.len();
                let mut members = Vec::new();
                for entry in &channel.entries {
                    let Some(bundle) = bundles.get(&(channel.package.as_str(), &*entry.name)) else { continue };
                    members.push(pool.members.len());
                    pool.members.push(PoolMember { source: number, bundle, channel: &channel.name, entry, group });
                }
                pool.groups.push(Group {
                    source: number,
                    package: &channel.package,
                    channel: &channel.name,
                    default: channel.default,
                    deprecation: channel.deprecation.as_deref(),
                    members,
                    chain: RefCell::default(),
                    edges: OnceCell::new(),
                });
            }
        }
        for (node, member) in pool.members.iter().enumerate() {
            let facts = &member.bundle.facts;
            let packages: HashSet<&str> =
                facts.packages.iter().map(|(package, _)| package.as_str()).chain([&*member.bundle.package]).collect();
            for package in packages {
                pool.by_package.entry(package).or_default().push(node);
            }
            for api in facts.provides.iter().collect::<HashSet<_>>() {
                pool.by_api.entry(api).or_default().push(node);
            }
            for label in facts.labels.iter().collect::<HashSet<_>>() {
                pool.by_label.entry(label).or_default().push(node);
            }
        }
        pool
    }

    /// Returns a member.
    pub fn member(&self, node: MemberIndex) -> &PoolMember<'a> {
        &self.members[node]
    }

    /// Returns all members, with their indexes.
    pub fn members(&self) -> impl Iterator<Item = (MemberIndex, &PoolMember<'a>)> {
        self.members.iter().enumerate()
    }

    /// Returns the members of a package, of any catalog and channel.
    pub fn of_package(&self, package: &str) -> &[MemberIndex] {
        self.by_package.get(package).map_or(&[], Vec::as_slice)
    }

    /// Returns the members that provide an API.
    pub fn of_api(&self, api: &[String; 3]) -> &[MemberIndex] {
        self.by_api.get(api).map_or(&[], Vec::as_slice)
    }

    /// Returns the name that clusters give a member.
    pub fn id(&self, node: MemberIndex) -> String {
        let member = &self.members[node];
        let source = &self.sources[member.source];
        format!("{}/{}/{}/{}", source.name, source.namespace, member.channel, member.bundle.name)
    }

    /// Returns whether a member is in the default channel of its package.
    pub fn is_default(&self, node: MemberIndex) -> bool {
        self.groups[self.members[node].group].default
    }

    /// Returns the members of the channel of a member, as listed.
    pub fn channel_of(&self, node: MemberIndex) -> &[MemberIndex] {
        &self.groups[self.members[node].group].members
    }

    /// Returns the deprecation message of the channel of a member.
    pub fn channel_deprecation(&self, node: MemberIndex) -> Option<&'a str> {
        self.groups[self.members[node].group].deprecation
    }

    /// Returns the members of the channel of a member, in order, or the reason why there is no order.
    pub fn chain_of(&self, node: MemberIndex) -> MemberChain {
        self.chain(self.members[node].group)
    }

    fn chain(&self, group: usize) -> MemberChain {
        let group = &self.groups[group];
        group
            .chain
            .borrow_mut()
            .get_or_insert_with(|| {
                let view = ChannelView::new(group.members.iter().map(|&node| self.members[node].entry));
                Rc::new(match chain::chain(&view) {
                    Ok(chain) => Ok(chain.into_iter().map(|place| group.members[place]).collect()),
                    Err(error) => {
                        let (package, channel) = (group.package.to_owned(), group.channel.to_owned());
                        Err(PoolError::NoOrder { package, channel, error })
                    }
                })
            })
            .clone()
    }

    fn edges(&self, group: usize) -> &Edges {
        self.groups[group].edges.get_or_init(|| {
            let mut edges = Edges::default();
            let chain = self.chain(group);
            for (place, &node) in chain.iter().flatten().enumerate() {
                let entry = self.members[node].entry;
                edges.places.insert(node, place);
                for name in entry.skips.iter().chain([&entry.replaces]).filter(|name| !name.is_empty()) {
                    edges.by_name.entry(name.clone()).or_default().push(place);
                }
                if !entry.skip_range.is_empty() {
                    edges.ranged.push(place);
                }
            }
            edges
        })
    }

    /// Returns the distance of a member from the head of its channel; `None` if clusters cannot choose it.
    pub(crate) fn below_head(&self, node: MemberIndex) -> Option<usize> {
        self.edges(self.members[node].group).places.get(&node).copied()
    }

    /// Returns the members of a channel that a bundle upgrades to, in order.
    ///
    /// # Errors
    /// Fails when the channel has no order, or the budget is exhausted.
    pub(crate) fn upgrades(
        &self,
        group: usize,
        name: &str,
        version: Option<&Version>,
    ) -> Result<Vec<MemberIndex>, PoolError> {
        let chain = self.chain(group);
        let chain = chain.as_ref().as_ref().map_err(Clone::clone)?;
        let edges = self.edges(group);
        let named = edges.by_name.get(name).map_or(&[][..], Vec::as_slice);
        let mut places: Vec<usize> = named.iter().chain(&edges.ranged).copied().collect();
        self.charge(places.len() as u64 + 1)?;
        places.sort_unstable();
        places.dedup();
        let nodes = places.into_iter().map(|place| chain[place]);
        Ok(nodes.filter(|&node| EntryEdge::between(self.members[node].entry, name, version).is_some()).collect())
    }

    /// Returns the channels of a catalog that match a Subscription, in order of preference.
    pub(crate) fn channels_of(&self, source: usize, package: &str, channel: Option<&str>) -> Rc<Vec<usize>> {
        let key = (source, package.to_owned(), channel.map(str::to_owned));
        let mut known = self.channels.borrow_mut();
        let found = known.entry(key).or_insert_with(|| {
            let groups = self.of_subscription(source, package, channel);
            Rc::new(groups.iter().filter_map(|group| Some(self.members[*group.first()?].group)).collect())
        });
        found.clone()
    }

    /// Sorts channels of one catalog: default channels first, then by package and channel.
    fn sort_groups(&self, groups: &mut [usize]) {
        groups.sort_by_key(|&group| {
            let group = &self.groups[group];
            (!group.default, group.package, group.channel)
        });
    }

    /// Returns the catalogs in order of preference for a bundle from `preferred`.
    fn order(&self, preferred: Option<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        order.sort_by_key(|&number| {
            let source = &self.sources[number];
            let foreign = source.namespace != self.namespace;
            (Some(number) != preferred, -source.priority, foreign, &source.namespace, &source.name, number)
        });
        order
    }

    /// Resets the work budget for the next query.
    pub fn reset_work(&self) {
        self.work.set(WORK_BUDGET);
        self.gave_up.set(false);
    }

    /// Spends work.
    ///
    /// # Errors
    /// Fails when the budget is exhausted.
    pub(crate) fn charge(&self, steps: u64) -> Result<(), PoolError> {
        let left = self.work.get().checked_sub(steps);
        self.work.set(left.unwrap_or_default());
        left.map(|_| ()).ok_or_else(|| self.give_up())
    }

    /// Records that a query reached a limit of opm, and returns the error.
    pub(crate) fn give_up(&self) -> PoolError {
        self.gave_up.set(true);
        PoolError::GaveUp
    }

    /// Returns whether a query reached a limit of opm.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up.get()
    }

    /// Returns the remaining work.
    pub(crate) fn work_left(&self) -> u64 {
        self.work.get()
    }

    /// Returns a superset of the members that meet a requirement.
    fn may_meet(&self, need: &Need) -> Vec<MemberIndex> {
        match need {
            Need::Package(name, _) => self.of_package(name).to_vec(),
            Need::Api(api) => self.of_api(api).to_vec(),
            Need::Label(label) => self.by_label.get(label.as_str()).cloned().unwrap_or_default(),
            Need::All(parts) => {
                let narrow = |part: &&Need| matches!(part, Need::Package(..) | Need::Api(_) | Need::Label(_));
                let part = parts.iter().find(narrow).or_else(|| parts.iter().find(|part| matches!(part, Need::All(_))));
                part.map_or_else(|| (0..self.members.len()).collect(), |part| self.may_meet(part))
            }
            Need::Any(parts) => {
                let mut all: Vec<MemberIndex> = parts.iter().flat_map(|part| self.may_meet(part)).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
            Need::Not(_) | Need::Rule { .. } => (0..self.members.len()).collect(),
            Need::Broken(_) => Vec::new(),
        }
    }

    /// Returns the members that meet a requirement of a bundle from `preferred`, the most preferred first.
    ///
    /// # Errors
    /// Fails when the requirement cannot be read, or when the channel of a matching member has no order.
    pub fn candidates(&self, need: &Need, preferred: Option<usize>) -> Matches {
        let key = (format!("{need:?}"), preferred);
        if let Some(known) = self.candidates.borrow().get(&key) {
            return known.clone();
        }
        let found = Rc::new(match &*self.matches(need) {
            Ok(matches) => self.in_order(matches, preferred),
            Err(error) => Err(error.clone()),
        });
        self.make_room(&found);
        self.candidates.borrow_mut().insert(key, found.clone());
        found
    }

    fn in_order(&self, matches: &[MemberIndex], preferred: Option<usize>) -> Result<Vec<MemberIndex>, PoolError> {
        let wanted: HashSet<MemberIndex> = matches.iter().copied().collect();
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut seen = HashSet::new();
        for &node in matches {
            let group = self.members[node].group;
            if seen.insert(group) {
                groups.entry(self.groups[group].source).or_default().push(group);
            }
        }
        let mut found = Vec::new();
        for source in self.order(preferred) {
            let Some(mut groups) = groups.remove(&source) else { continue };
            self.sort_groups(&mut groups);
            for group in groups {
                match &*self.chain(group) {
                    Ok(chain) => found.extend(chain.iter().copied().filter(|node| wanted.contains(node))),
                    Err(error) => return Err(error.clone()),
                }
            }
        }
        Ok(found)
    }

    /// Returns the members of a catalog that match a Subscription, by channel, in order of preference.
    pub(crate) fn of_subscription(&self, source: usize, package: &str, channel: Option<&str>) -> Vec<Vec<MemberIndex>> {
        let mut groups: BTreeMap<usize, Vec<MemberIndex>> = BTreeMap::new();
        for &node in self.of_package(package) {
            let member = &self.members[node];
            if member.source == source && channel.is_none_or(|channel| channel == member.channel) {
                groups.entry(member.group).or_default().push(node);
            }
        }
        let mut order: Vec<usize> = groups.keys().copied().collect();
        // Here default channels come first, then channels by name, regardless of package.
        order.sort_by_key(|&group| (!self.groups[group].default, self.groups[group].channel, group));
        order.into_iter().filter_map(|group| groups.remove(&group)).collect()
    }

    /// Returns every member that clusters can choose, with its distance from the head of its channel.
    pub(crate) fn on_chains(&self) -> impl Iterator<Item = (MemberIndex, usize)> {
        (0..self.groups.len()).flat_map(|group| match &*self.chain(group) {
            Ok(chain) => chain.iter().copied().zip(0..).collect::<Vec<_>>(),
            Err(_) => Vec::new(),
        })
    }
}
