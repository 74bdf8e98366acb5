package mock

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that variables have the parameters and the amounts of a holder or the defaults, that one without a value is
// left out, and that those with admin access have edits of their own.
func TestParameters(t *testing.T) {
	r := newRig(t, t.TempDir(), `{"memory": "8Gi", "hooks": ["prepare"], "shares": {"memory": "1Gi"}, "edits": {"env": {"ADMIN": "false"}},
		"adminEdits": {"env": {"ADMIN": "{{.ID}}"}},
		"prepare": {"edits": {"env": {"STRATEGY": "{{.Parameter.strategy}}", "INTERVAL": "{{.Parameter.interval}}", "COUNT": "{{.Parameter.partitionCount}}",
			"IN": "{{.Parameter.ingressBurst}}", "OUT": "{{.Parameter.egressBurst}}", "TEXT": "<{{.Parameter.message}}>", "BYTES": "{{.Capacity.memory}}"}}}}`)
	if d := device(r.Until("the first inventory", anyInventory), "mock-0"); d.GetAdminEdits().GetEnv()["ADMIN"] != "mock-0" {
		t.Errorf("the device is %v", d)
	}
	for parameters, want := range map[string]map[string]string{
		"": {"STRATEGY": "TimeSlicing", "INTERVAL": "Default"},
		`{"interval": "Long", "partitionCount": 3, "ingressBurst": 7, "egressBurst": 0}`:    {"STRATEGY": "TimeSlicing", "INTERVAL": "Long", "IN": "7"},
		`{"strategy": "SpacePartitioning", "interval": "Long", "message": "a"}`:             {"STRATEGY": "SpacePartitioning", "COUNT": "1", "TEXT": "<a>", messageVariable: "a"},
		`{"strategy": "SpacePartitioning", "partitionCount": 10, "egressBurst": 123456789}`: {"STRATEGY": "SpacePartitioning", "COUNT": "10", "OUT": "123456789"},
	} {
		for amount, text := range map[int64]string{0: "", 5: "5"} {
			held := &backendv1.HeldDevice{Id: "mock-0"}
			if amount > 0 {
				held.Capacities, want["BYTES"], want["ACCELMUX_MOCK_0_MEMORY"] = map[string]int64{"memory": amount}, text, text
			} else {
				delete(want, "BYTES")
				delete(want, "ACCELMUX_MOCK_0_MEMORY")
			}
			res, err := r.Prepare(t.Context(), &backendv1.PrepareRequest{Holder: &backendv1.Holder{Id: "x"}, Devices: []*backendv1.HeldDevice{held}, ParametersJson: []byte(parameters)})
			if diff := cmp.Diff(want, res.GetEdits()["mock-0"].GetEnv()); diff != "" || err != nil {
				t.Errorf("%s, %d: %v (-want +got):\n%s", parameters, amount, err, diff)
			}
		}
	}
}
