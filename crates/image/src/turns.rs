//! Much work for few connections: what waits for its turn is an item in a list, and no task that holds memory.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;

use tokio::task::JoinSet;

/// How much may be under way at most, however many registries there are.
pub(crate) const MOST: usize = 64;

/// Does something for each item, in their order, `parallel` at a time for each registry; registries do not wait for each
/// other. Returns what came of it, in no order.
pub(crate) async fn each_in_turn<I, T, W>(
    parallel: usize,
    items: impl Iterator<Item = (String, I)>,
    work: impl Fn(I) -> W,
) -> Vec<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    // What waits at each registry, and how much is under way there.
    let mut waiting: BTreeMap<String, (VecDeque<I>, usize)> = BTreeMap::new();
    for (host, item) in items {
        waiting.entry(host).or_default().0.push_back(item);
    }
    let parallel = parallel.clamp(1, MOST);
    let mut tasks: JoinSet<(String, T)> = JoinSet::new();
    let mut outcomes = Vec::new();
    loop {
        let mut begun = true;
        // One of each at a time, so that the first registry does not take all the room.
        while std::mem::take(&mut begun) {
            for (host, (items, busy)) in &mut waiting {
                if tasks.len() < MOST
                    && *busy < parallel
                    && let Some(item) = items.pop_front()
                {
                    let (host, work) = (host.clone(), work(item));
                    tasks.spawn(async move { (host, work.await) });
                    *busy += 1;
                    begun = true;
                }
            }
        }
        match tasks.join_next().await {
            None => return outcomes,
            Some(Ok((host, outcome))) => {
                outcomes.push(outcome);
                if let Some((_, busy)) = waiting.get_mut(&host) {
                    *busy -= 1;
                }
            }
            // A task that panicked has no outcome, and its registry one turn less.
            Some(Err(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn each_registry_has_its_own_turns_and_all_is_done() {
        let busy: Arc<[AtomicUsize; 2]> = Arc::default();
        let peak: Arc<[AtomicUsize; 2]> = Arc::default();
        let items = (0..40).map(|number| (format!("r{}.test", number % 2), number));
        let mut done = each_in_turn(3, items, |number: usize| {
            let (busy, peak) = (busy.clone(), peak.clone());
            async move {
                let now = busy[number % 2].fetch_add(1, Ordering::SeqCst) + 1;
                peak[number % 2].fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                busy[number % 2].fetch_sub(1, Ordering::SeqCst);
                number
            }
        })
        .await;
        done.sort_unstable();
        assert_eq!(done, (0..40).collect::<Vec<_>>());
        assert!(peak.iter().all(|peak| peak.load(Ordering::SeqCst) == 3), "{peak:?}");
    }
}
