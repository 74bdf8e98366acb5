package mock

import "github.com/accelmux/accelmux/backends/sdk"

// mockNeeds are any edits, since the settings define what a container gets. All but
// ACCELMUX_MOCK_* are too broad to be accepted by allow.declared, so the node's configuration
// lists them.
var mockNeeds = &sdk.Needs{
	DeviceNodes: []string{"/**"}, Mounts: []string{"/**"}, Env: []string{"*", "ACCELMUX_MOCK_*"},
}
