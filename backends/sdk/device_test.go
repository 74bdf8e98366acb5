package sdk

import (
	"testing"
)

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
