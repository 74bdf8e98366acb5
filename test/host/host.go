package host

import (
	"fmt"
	"os"
	"testing"
)

// StrictEnv set to 1 says that the machine must have all that tests ask for.
const StrictEnv = "ACCELMUX_NO_SKIPS"

// Lacks ends a test that cannot run here: skipped, or failed by [StrictEnv]. The
// sentence says what the machine lacks, or does not allow.
func Lacks(tb testing.TB, format string, args ...any) {
	tb.Helper()
	sentence := fmt.Sprintf(format, args...)
	if os.Getenv(StrictEnv) != "1" {
		tb.Skip(sentence) //nolint:forbidigo // this is the place for it
	}
	tb.Fatalf("%s (with %s=1 no test may be skipped for what the machine lacks)", sentence, StrictEnv)
}
