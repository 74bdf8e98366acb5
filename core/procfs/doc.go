// Package procfs reads /proc/PID of Linux. It does not know what a process is to the agent.
package procfs
