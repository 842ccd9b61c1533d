//! A scheduler for many requests over few connections: pending work is an item in a queue, not a task that holds
//! memory.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;

use tokio::task::JoinSet;

/// Maximum number of tasks in flight over all registries.
pub(crate) const CONCURRENCY: usize = 64;

/// Runs `work` for each item in order, with up to `parallel` concurrent tasks per registry. Registries do not wait
/// for each other. Returns the results in completion order.
pub(crate) async fn for_each_by_registry<I, T, W>(
    parallel: usize,
    items: impl Iterator<Item = (String, I)>,
    work: impl Fn(I) -> W,
) -> Vec<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    // The queue of each registry and its number of tasks in flight.
    let mut queues: BTreeMap<String, (VecDeque<I>, usize)> = BTreeMap::new();
    for (host, item) in items {
        queues.entry(host).or_default().0.push_back(item);
    }
    let parallel = parallel.clamp(1, CONCURRENCY);
    let mut tasks: JoinSet<(String, T)> = JoinSet::new();
    let mut outcomes = Vec::new();
    loop {
        let mut begun = true;
        // Round robin, so that the first registry does not take all slots.
        while std::mem::take(&mut begun) {
            for (host, (items, in_flight)) in &mut queues {
                if tasks.len() < CONCURRENCY
                    && *in_flight < parallel
                    && let Some(item) = items.pop_front()
                {
                    let (host, work) = (host.clone(), work(item));
                    tasks.spawn(async move { (host, work.await) });
                    *in_flight += 1;
                    begun = true;
                }
            }
        }
        match tasks.join_next().await {
            None => return outcomes,
            Some(Ok((host, outcome))) => {
                outcomes.push(outcome);
                if let Some((_, in_flight)) = queues.get_mut(&host) {
                    *in_flight -= 1;
                }
            }
            // A panicked task has no outcome, and its registry loses one slot.
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
    async fn each_registry_has_its_own_queue_and_all_tasks_run() {
        let in_flight: Arc<[AtomicUsize; 2]> = Arc::default();
        let peak: Arc<[AtomicUsize; 2]> = Arc::default();
        let items = (0..40).map(|number| (format!("r{}.test", number % 2), number));
        let mut done = for_each_by_registry(3, items, |number: usize| {
            let (in_flight, peak) = (in_flight.clone(), peak.clone());
            async move {
                let now = in_flight[number % 2].fetch_add(1, Ordering::SeqCst) + 1;
                peak[number % 2].fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                in_flight[number % 2].fetch_sub(1, Ordering::SeqCst);
                number
            }
        })
        .await;
        done.sort_unstable();
        assert_eq!(done, (0..40).collect::<Vec<_>>());
        assert!(peak.iter().all(|peak| peak.load(Ordering::SeqCst) == 3), "{peak:?}");
    }
}
