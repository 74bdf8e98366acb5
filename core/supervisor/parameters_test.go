package supervisor_test

import (
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that parameters that the backend's schema refuses do not reach it.
func TestParameters(t *testing.T) {
	r := newRig(t, fast())
	r.run(spec("normal"))
	for parameters, want := range map[string]string{
		"":                            "",
		`{"count": 3}`:                "",
		`{"count": "3"}`:              "the parameters are refused: count: got string, want integer",
		`{"cuont": 3}`:                "the parameters are refused: additional properties 'cuont' not allowed",
		strings.Repeat(" ", 10<<10+1): "at most 10240 are possible",
	} {
		_, err := r.Prepare(t.Context(), "b", &backendv1.PrepareRequest{
			Devices: []*backendv1.HeldDevice{{Id: "dev-1"}}, ParametersJson: []byte(parameters),
		}, func() {})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q", parameters, err, want)
		}
	}
	r.run(spec("no-parameters"))
	_, err := r.Prepare(t.Context(), "b", &backendv1.PrepareRequest{
		Devices: []*backendv1.HeldDevice{{Id: "dev-1"}}, ParametersJson: []byte(`{}`),
	}, func() {})
	if err == nil || !strings.Contains(err.Error(), "takes no parameters") {
		t.Errorf("without a schema: %v", err)
	}
}
