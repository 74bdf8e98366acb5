// Package rig is what benchmarks of backends share: figures beside their limits, a
// backend as a process, a node of an agent and a stand-in kubelet, and what processes
// use. What the hardware is, is the benchmark's own.
package rig
