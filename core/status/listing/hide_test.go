package listing

import (
	"encoding/json"
	"strings"
	"testing"
)

// Verifies that no name of a pod, claim, container or namespace is left, also in messages about another device's
// holder, while faults stay and a holder is found by its hash.
func TestHideNames(t *testing.T) {
	holders := []Holder{{Namespace: "team", Pod: "secret-pod", Container: "secret-main", Resource: "ex.com/a", Unit: "d"}, {Namespace: "team", Claim: "secret-claim"}}
	faults := func() []Fault {
		return []Fault{{Code: "hot", Message: "waits until pod team/secret-pod, which has device d, is gone, and claim team/secret-claim"}}
	}
	devices := []Device{{ID: "d", Holders: holders}, {ID: "e", Faults: faults()}}
	telemetry := Telemetry{Devices: []Measured{{ID: "d", Holders: holders}, {ID: "e", Faults: faults()}}}
	HideNames(devices)
	telemetry.HideNames()
	for _, hidden := range []any{devices, telemetry} {
		text, err := json.Marshal(hidden)
		if err != nil || strings.Contains(string(text), "secret") || strings.Contains(string(text), "team") || !strings.Contains(string(text), "which has device d") {
			t.Errorf("%v: %s", err, text)
		}
	}
	if h := devices[0].Holders; h[0].PodHash != Hash("pod", "team", "secret-pod") || h[1].ClaimHash != Hash("claim", "team", "secret-claim") || h[0].Resource != "ex.com/a" {
		t.Errorf("the holders are %+v", h)
	}
	if Hash("pod", "a", "b") == Hash("claim", "a", "b") {
		t.Error("a pod and a claim of one name have the same hash")
	}
}
