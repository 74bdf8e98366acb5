package sdktest

import (
	"slices"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Held returns devices that are allocated to a holder, for a request; the shared ones are
// marked.
func Held(shared []string, ids ...string) []*backendv1.HeldDevice {
	var all []*backendv1.HeldDevice
	for _, id := range ids {
		all = append(all, &backendv1.HeldDevice{Id: id, Shared: slices.Contains(shared, id)})
	}
	return all
}
