// Chaos runs a whole node through faults that are drawn at random: a stand-in kubelet,
// agents and backends as real processes, and everything that can happen to them. After
// every step the invariants of invariants.go must hold.
//
// The draw comes from a seed, so a run can be repeated; what fails is shrunk to a short
// list of steps. README.md says how it is used.
//
// The program keeps a model of its own of what is true (model.go): which devices there
// are, what is wrong with them, what is configured. It is made of the rules in the
// documents, not of the agent's code, and the agent is never asked what kubelet ought
// to see.
package main
