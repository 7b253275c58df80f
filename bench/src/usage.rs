//! What this process uses: CPU time and memory.

use std::fs;
use std::time::Duration;

/// Returns the CPU time that this process has used; none on a system where this program can't read it.
pub(crate) fn cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        // Neither field of this clock is ever negative, and its nanoseconds stay below a second.
        Some(Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec as u32))
    }
    #[cfg(not(unix))]
    None
}

/// Returns how much memory of this process is resident; none on a system where this program can't read it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns by how much this process's resident memory has grown since it was `before`.
pub(crate) fn grown_since(before: Option<u64>) -> Option<u64> {
    Some(resident_bytes()?.saturating_sub(before?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_written_to_is_resident() {
        const BYTES: usize = 64 << 20;
        let before = resident_bytes();
        let block = vec![1_u8; BYTES];
        let grown = grown_since(before).unwrap();
        // Other tests of this process allocate and free meanwhile.
        assert!(grown > BYTES as u64 / 2, "{grown} of {}", block.len());
        assert_eq!(grown_since(None), None);
    }

    #[cfg(unix)]
    #[test]
    fn time_that_is_worked_is_used() {
        let before = cpu_time().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(20) {}
        assert!(cpu_time().unwrap() > before);
    }
}
