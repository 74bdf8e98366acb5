// Package programs builds the programs that tests run.
//
// Go keeps the result of a package's tests, and says "(cached)", for as long as nothing
// has changed that it knows them by: what the test itself is compiled from, the
// environment variables that its process asks for, and the files of its module that its
// process opens or asks about. What a child of that process reads is not known, and so
// a program that `go build` makes for a test may change without the test being run
// again. [Build] therefore asks about each file that the program is made of. Go notes what
// is asked between the start and the end of [testing.M.Run], not before it, and so
// programs are built where there is a test to name.
//
// What comes from other modules is not asked about, but go.mod and go.sum are, which
// say what it is. A file that is changed while tests run counts as one that was changed
// before, as with all files that tests read. Go does not note files outside the module
// that a test is in: the tests of modules of their own (test/kubelet, test/deployments,
// test/node) have programs of this one, and are always run.
package programs
