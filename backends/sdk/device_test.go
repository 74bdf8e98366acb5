package sdk

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// JoinedEnv adds a variable with its separator to the edits.
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

// A graver health is returned in either order, of equals the first.
func TestGraver(t *testing.T) {
	order := []*Health{
		nil, Healthy(), Unknown("?"),
		Fault("a", RecoverySelf, ""), Fault("b", RecoveryReset, ""),
		Fault("c", RecoveryReboot, ""), Fault("d", RecoveryReplacement, ""),
	}
	for i, lesser := range order {
		for _, graver := range order[i+1:] {
			if Graver(lesser, graver) != graver || Graver(graver, lesser) != graver {
				t.Errorf("%v hides %v", lesser, graver)
			}
		}
	}
	first, second := Fault("first", RecoveryReset, ""), Fault("second", RecoveryReset, "")
	if Graver(first, second) != first {
		t.Error("of two equal faults the second was taken")
	}
}
