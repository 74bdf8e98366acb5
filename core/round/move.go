package round

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// A resource moves from one API to the other when the configuration says so. Its free devices move
// at once, and the others when they are released: Allocated withholds what a holder has by
// the other API.
//
// Kubelet makes one thing harder. It does not start a container that asks for a name as an extended
// resource, and has its devices by a claim, while a device plugin with PreStartContainer is
// registered for the name ("no devices found allocated in local cache",
// pkg/kubelet/cm/devicemanager of k8s.io/kubernetes). It remembers the plugin until it restarts.
// Therefore:
//
//   - A resource that has moved to dynamic resource allocation stays registered, with an empty list.
//     PreStartContainer stays while a container has a device that must be prepared, and then goes.
//   - A resource that moves back, and whose devices are prepared, is registered when no claim of an
//     extended resource holds one of them.

// ForDevicePlugin returns the table as the device plugin API serves it: without the devices that
// dynamic resource allocation serves, but with those that containers still have by this API. known
// are the names that kubelet knew at the agent's start. The problems are for the operator.
func ForDevicePlugin(table *resource.Table, held map[inventory.Key][]holders.Allocation, known map[string]bool) (*resource.Table, []inventory.Problem) {
	served := *table
	served.Resources = slices.Clone(table.Resources)
	var problems []inventory.Problem
	for i, r := range table.Resources {
		waits := notRestarting
		if r.API == config.APIDRA {
			waits = notStarting
		}
		problem := waits(r, held)
		withheld := r.API == config.APIDRA || problem != ""
		if problem != "" {
			problems = append(problems, inventory.Problem{Message: "resource " + r.Name + ": " + problem})
		}
		if !withheld {
			continue
		}
		own := *r
		own.Withheld, own.Held = true, r.Held || known[r.Name]
		own.Devices = slices.DeleteFunc(slices.Clone(r.Devices), func(d resource.Device) bool { return !hasUnit(r, held[d.Key]) })
		served.Resources[i] = &own
	}
	return &served, problems
}

func hasUnit(r *resource.Resource, allocations []holders.Allocation) bool {
	return slices.ContainsFunc(allocations, func(a holders.Allocation) bool { return a.Claim == nil && a.Resource == r.Name })
}

// notStarting returns why containers cannot be started by dynamic resource allocation yet.
func notStarting(r *resource.Resource, held map[inventory.Key][]holders.Allocation) string {
	var ids []string
	for _, d := range r.Devices {
		if d.Hooks.Prepare && hasUnit(r, held[d.Key]) {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf("it has moved to dynamic resource allocation, but containers have %s by the device plugin API, and have it prepared before each start: "+
		"until these are gone, kubelet starts no pod that asks for %s as an extended resource; pods with claims are started", strings.Join(ids, ", "), r.Name)
}

// notRestarting returns why the device plugin API cannot serve the resource yet.
func notRestarting(r *resource.Resource, held map[inventory.Key][]holders.Allocation) string {
	if !slices.ContainsFunc(r.Devices, func(d resource.Device) bool { return d.Hooks.Prepare }) {
		return ""
	}
	var claims []string
	for _, d := range r.Devices {
		for _, a := range held[d.Key] {
			if a.Claim == nil || !a.Claim.Extended {
				continue
			}
			if name := a.Claim.Namespace + "/" + a.Claim.Name; !slices.Contains(claims, name) {
				claims = append(claims, name)
			}
		}
	}
	if len(claims) == 0 {
		return ""
	}
	slices.Sort(claims)
	return fmt.Sprintf("its devices are prepared before each start, and pods that asked for it as an extended resource have some by dynamic resource allocation: "+
		"kubelet could not start their containers again if the resource was registered; it is registered when these claims have ended: %s", strings.Join(claims, ", "))
}
