package sdk

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Verifies the list of modules in the package's documentation: a vendor's program that imports
// the package requires these and no other.
func TestImports(t *testing.T) {
	t.Parallel()
	want := []string{
		"github.com/accelmux/accelmux",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "golang.org/x/time",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf",
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the modules that the package imports from are\n%q, want\n%q", got, want)
	}
}
