// Package round has the value that one run of the agent's pipeline computes: the verdicts,
// the resources and the CDI names of one snapshot of the inventory.
//
//	snapshot ──► resources ──► with removed devices ──► CDI names ──► verdicts ──► [Round]
//
// The packages downstream (lifecycle, the frontends, telemetry, features, events, status) read
// it and never change it; a reader may miss rounds.
//
// The package also composes the one verdict on each device, once, after all else is known of it: what
// health judged, and the [Reasons] that follow from resets, cordons, allocations, missing files and CDI
// names. It calls no other part, and stores nothing from one run to the next but the cache of
// [Nodes] and the file of [Earlier].
package round
