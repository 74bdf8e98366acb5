// Package round has the value that one run of the agent's pipeline computes: the verdicts,
// the resources and the CDI names of one snapshot of the inventory.
//
//	snapshot, health's verdicts ──► resources ──► with what is allocated ──► CDI names ──► [Round]
//
// The packages downstream (lifecycle, the frontends, telemetry, features, events, status) read
// it and never change it; a reader may miss rounds.
//
// The package also composes the one verdict on each device: what health judged, and the
// faults that follow from resets, from allocations, from missing device nodes and from CDI
// names. It calls no other part, and stores nothing from one run to the next but the cache of
// [Nodes] and the file of [Earlier].
package round
