//! A few idle shims kept warm, so that a start costs no more than a fork. Taking one never waits for
//! another caller; an empty pool launches one on the spot.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::handle::Shim;
use super::launcher::{LaunchError, ShimLauncher};

/// Pause after a failed launch in the background.
const PAUSE: Duration = Duration::from_secs(1);

/// How large a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Idle shims to keep.
    pub idle: usize,
    /// Attempts after which a shim is replaced.
    pub max_attempts: u64,
}

impl Default for PoolConfig {
    /// Four idle shims, a thousand attempts each.
    fn default() -> Self {
        Self { idle: 4, max_attempts: 1_000 }
    }
}

#[derive(Debug)]
struct Inner {
    launcher: ShimLauncher,
    config: PoolConfig,
    idle: Mutex<VecDeque<Shim>>,
    wanted: Arc<Notify>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The background task finds the pool gone.
        self.wanted.notify_one();
    }
}

/// A pool of idle shims. When the last clone is dropped, its idle shims end.
#[derive(Clone, Debug)]
pub struct ShimPool {
    inner: Arc<Inner>,
}

impl ShimPool {
    /// A pool that fills itself in the background. Needs a tokio runtime around it.
    pub fn new(launcher: ShimLauncher, config: PoolConfig) -> Self {
        let wanted = Arc::new(Notify::new());
        wanted.notify_one();
        let inner = Arc::new(Inner {
            launcher,
            config,
            idle: Mutex::new(VecDeque::new()),
            wanted: Arc::clone(&wanted),
        });
        tokio::spawn(refill(Arc::downgrade(&inner), wanted));
        Self { inner }
    }

    /// The launcher behind it.
    pub fn launcher(&self) -> &ShimLauncher {
        &self.inner.launcher
    }

    /// Idle shims at this moment.
    pub fn idle(&self) -> usize {
        self.inner.lock().len()
    }

    /// An idle shim: a warm one if there is one, else a new one.
    pub async fn take(&self) -> Result<Shim, LaunchError> {
        let warm = self.inner.pop();
        self.inner.wanted.notify_one();
        match warm {
            Some(shim) => Ok(shim),
            None => self.inner.launcher.launch().await,
        }
    }

    /// Releases a shim's ended attempt and takes the shim back; a surplus, worn or lost one is retired.
    pub fn release(&self, shim: Shim) {
        // A lost shim has nothing to release.
        let _ = shim.release();
        if shim.is_reusable() && shim.served() < self.inner.config.max_attempts {
            let mut idle = self.inner.lock();
            // Callers come in bursts: twice the size is kept before anything is thrown away.
            if idle.len() < self.inner.config.idle * 2 {
                // The one used last is the one whose memory is still warm.
                idle.push_front(shim);
                return;
            }
        }
        let _ = shim.retire();
        self.inner.wanted.notify_one();
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Shim>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self) -> Option<Shim> {
        let mut idle = self.lock();
        while let Some(shim) = idle.pop_front() {
            if !shim.is_lost() {
                return Some(shim);
            }
        }
        None
    }
}

async fn refill(pool: Weak<Inner>, wanted: Arc<Notify>) {
    loop {
        wanted.notified().await;
        while fill_one(&pool).await {}
        if pool.strong_count() == 0 {
            return;
        }
    }
}

/// Launches one shim if one is missing; false if there is nothing to do.
async fn fill_one(pool: &Weak<Inner>) -> bool {
    let Some(inner) = pool.upgrade() else {
        return false;
    };
    {
        let mut idle = inner.lock();
        idle.retain(|shim| !shim.is_lost());
        if idle.len() >= inner.config.idle {
            return false;
        }
    }
    match inner.launcher.launch().await {
        Ok(shim) => inner.lock().push_back(shim),
        Err(error) => {
            tracing::warn!(%error, "cannot launch a shim");
            drop(inner);
            tokio::time::sleep(PAUSE).await;
        }
    }
    true
}
