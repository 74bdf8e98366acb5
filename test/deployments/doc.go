// Package deployments holds the tests of what is under deployments/: the Helm
// chart, the manifests rendered from it, the kind cluster, the systemd unit and
// the packages. It is a module of its own because it needs the types of kind and
// a reader of rpm files, which nothing else here does.
//
// Run it with `make test-deployments`, or here with `go test -count=1 .`; the
// first run builds helm and nfpm, which takes minutes. `make manifests` runs it with
// -update, which writes the generated files anew. The accelmux programs are built
// from the module two directories up, unless ACCELMUX_BIN names a directory that
// has them.
package deployments
