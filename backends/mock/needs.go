package mock

import (
	"path/filepath"

	"github.com/accelmux/accelmux/backends/sdk"
)

// mockNeeds are any edits, since the settings define what a container gets. All but
// ACCELMUX_MOCK_* are too broad to be accepted by allow.declared, so the node's configuration
// lists them.
var mockNeeds = &sdk.Needs{
	DeviceNodes: []string{"/**"}, Mounts: []string{"/**"}, Env: []string{"*", "ACCELMUX_MOCK_*"},
}

// needs are those of the files in the settings. Each is replaced, or made, in its directory.
func (c *config) needs() *sdk.Needs {
	n := &sdk.Needs{}
	if c == nil {
		return n
	}
	if c.scenarioFile != "" {
		n.ReadPaths, n.SystemCalls = []string{filepath.Dir(c.scenarioFile) + "/**"}, []string{"@inotify"}
	}
	for _, file := range []string{c.changeLog, c.callLog, c.stateFile} {
		if file != "" {
			n.WritePaths = append(n.WritePaths, filepath.Dir(file)+"/**")
		}
	}
	return n
}
