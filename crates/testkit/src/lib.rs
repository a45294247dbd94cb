//! Test helpers of subagent: worlds, daemons, scripted children.
