package sdk

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// A joined variable comes with its separator, beside what the edits have.
func TestJoinedEnv(t *testing.T) {
	for _, e := range []*Edits{{}, {Env: map[string]string{"A": "old", "B": "b"}}} {
		want := &Edits{Env: map[string]string{"A": "a"}, EnvSeparators: map[string]string{"A": ","}}
		if b, ok := e.Env["B"]; ok {
			want.Env["B"] = b
		}
		JoinedEnv(e, "A", "a", ",")
		if diff := cmp.Diff(want, e, protocmp.Transform()); diff != "" {
			t.Errorf("edits (-want +got):\n%s", diff)
		}
	}
}
