package programs

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
)

// BinEnv is an environment variable: the directory of programs that were built before the
// tests, by `make test-suites`.
const BinEnv = "ACCELMUX_TEST_BIN"

// Shared are programs that the tests of a package share: those of [BinEnv], or else the
// first test that needs them builds them. TestMain removes what was built, after
// [testing.M.Run].
type Shared struct {
	// Args are arguments of `go build`, as for [Build]. Programs with flags are always built.
	Args []string

	once sync.Once
	dir  string
	own  bool
	err  error
}

// Tags is the flag that builds programs with a build tag besides those of the Makefile (GO_TAGS),
// which a flag -tags would replace, so that most packages were compiled again.
func Tags(tag string) string {
	if tags := os.Getenv("GO_TAGS"); tags != "" {
		tag = tags + "," + tag
	}
	return "-tags=" + tag
}

// Dir is the directory of the programs. A test that may need them fails if they cannot
// be built.
func (s *Shared) Dir(tb testing.TB) string {
	tb.Helper()
	s.once.Do(func() {
		if dir := os.Getenv(BinEnv); dir != "" && !strings.HasPrefix(s.Args[0], "-") {
			s.dir = dir
			_, s.err = note(context.WithoutCancel(tb.Context()), s.Args)
			return
		}
		if s.dir, s.err = os.MkdirTemp("", "accelmux-bin"); s.err == nil {
			s.own = true
			s.err = build(tb, s.dir+"/", s.Args)
		}
	})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.dir
}

// Remove removes what was built. No test may run any more.
func (s *Shared) Remove() error {
	if !s.own {
		return nil
	}
	return os.RemoveAll(s.dir)
}
