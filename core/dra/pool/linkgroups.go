package pool

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/topology"
)

// LinkGroups are the names of a device's link groups, for each of [topology.GroupSizes]; "" for none.
// The name of a group is the lowest ID of its devices.
type LinkGroups [3]string

// NewLinkGroups returns the link groups of the devices of a topology, by their IDs.
func NewLinkGroups(t *topology.Topology) map[string]LinkGroups {
	all := map[string]LinkGroups{}
	for i, size := range topology.GroupSizes() {
		for _, group := range t.LinkGroups(size) {
			for _, id := range group.Devices {
				names := all[id]
				names[i] = group.Devices[0]
				all[id] = names
			}
		}
	}
	return all
}

// LinkGroupAttribute returns the name of the attribute that has the link groups for claims of size
// devices.
func LinkGroupAttribute(size int) resourceapi.QualifiedName {
	return resourceapi.QualifiedName(fmt.Sprintf("%s/linkGroup%d", config.FactsDomain, size))
}
