package main

import (
	"bytes"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// printed returns what a table prints.
func printed[T any](t *testing.T, table func(*tabwriter.Writer, T), answer T) string {
	t.Helper()
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	table(w, answer)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Verifies that the API of resources and the drivers are shown where a resource is served by dynamic
// resource allocation, and not elsewhere.
func TestStatusTable(t *testing.T) {
	plugin := status.Resource{Name: "ex.com/nic", API: "devicePlugin", State: "serving", Units: 4, Healthy: 4, Injection: "cdi", Registration: "socket"}
	dra := status.Resource{Name: "ex.com/gpu", API: "dra", State: "serving", Units: 8, Healthy: 7}
	const both = `RESOURCE    API           STATE    FOR  HEALTHY  INJECTION  REGISTRATION
ex.com/nic  devicePlugin  serving  -    4 of 4   cdi        socket
ex.com/gpu  dra           serving  -    7 of 8   -          -
`
	if got := printed(t, resourceRows, []status.Resource{plugin, dra}); got != both {
		t.Errorf("printed\n%s\nwant\n%s", got, both)
	}
	if got := printed(t, resourceRows, []status.Resource{plugin}); strings.Contains(got, "API") {
		t.Errorf("without dynamic resource allocation, printed\n%s", got)
	}
	const drivers = `
DRIVER           BACKEND  DEVICES  REGISTERED  PUBLISHED
gpu.example.com  mock     8        yes         no
b.accelmux.io    b        1        no          yes
gpu.example.com: not published: attribute hive: no room
`
	if got := printed(t, driverRows, []status.Driver{
		{Name: "gpu.example.com", Backend: "mock", Devices: 8, Registered: true, Notes: []string{"not published: attribute hive: no room"}},
		{Name: "b.accelmux.io", Backend: "b", Devices: 1, Published: true, Problem: "forbidden"},
	}); got != drivers {
		t.Errorf("printed\n%s\nwant\n%s", got, drivers)
	}
	if got := printed(t, driverRows, nil); got != "" {
		t.Errorf("without a driver, printed %q", got)
	}
}

// Verifies how the holders of a device are shown: containers with units each, and a claim once, with
// its containers.
func TestHoldersColumn(t *testing.T) {
	for want, all := range map[string][]listing.Holder{
		"": nil,
		"a container that kubelet has not listed yet, a container that kubelet has not listed yet, team/train/main (ending)": {
			{Resource: "r", Unit: "a::0"}, {Resource: "r", Unit: "a::2"}, {Namespace: "team", Pod: "train", Container: "main", Resource: "r", Unit: "a::1", Ending: true},
		},
		"claim team/shared (train/main, train/side, eval/main)": {
			{Namespace: "team", Claim: "shared", Pod: "train", Container: "main"}, {Namespace: "team", Claim: "shared", Pod: "train", Container: "side"},
			{Namespace: "team", Claim: "shared", Pod: "eval", Container: "main"},
		},
		"claim team/x, claim other/x (p/main)": {{Namespace: "team", Claim: "x"}, {Namespace: "other", Claim: "x", Pod: "p", Container: "main"}},
	} {
		if got := listing.HoldersText(all); got != want {
			t.Errorf("%+v is shown as %q, want %q", all, got, want)
		}
	}
}
