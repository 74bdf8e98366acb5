// Package host is what tests ask of the machine that they run on: root, mounts,
// cgroups, a system call, a program.
//
// A test that needs what a machine may lack skips by [Lacks]. Where all of them must
// run, as in CI, [StrictEnv] makes failures of these skips, which nobody would see.
// What is skipped by design, as what a release of kubelet does not do, is no matter of
// the machine, and stays a skip.
package host
