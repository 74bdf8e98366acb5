package mock

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// computeCapacity is the capacity of a shared device's compute, in percent.
const computeCapacity = "compute"

// shares are the amounts of a device that a claim gets which requests none: bytes of memory and percent of
// compute, 0 if claims cannot request parts of it.
type shares struct {
	Memory  quantity `json:"memory"`
	Compute int64    `json:"compute"`
}

func (s *shares) check(at string, g *group, errs *sdk.FieldErrors) {
	switch {
	case s == nil:
		return
	case g.Partitions != nil:
		errs.Add(at, "a device has shares or partitions, not both")
	case s.Memory == 0 && s.Compute == 0:
		errs.Add(at, "give memory, compute or both: what a claim gets that requests nothing")
	}
	if s.Memory > g.Memory {
		errs.Add(at+".memory", "%d is more than the memory of the device, %d", s.Memory, g.Memory)
	}
	if s.Compute < 0 || s.Compute > 100 {
		errs.Add(at+".compute", "%d is out of range: 0 to 100 percent", s.Compute)
	}
}

// describe makes a device shareable.
func (s *shares) describe(d *sdk.Device) {
	if s == nil {
		return
	}
	d.Shareable, d.RequestPolicies = true, map[string]*backendv1.RequestPolicy{}
	if s.Memory > 0 {
		d.RequestPolicies["memory"] = &backendv1.RequestPolicy{Default: int64(s.Memory), Range: &backendv1.AmountRange{Min: 1}}
	}
	if s.Compute > 0 {
		d.Capacities[computeCapacity] = 100
		d.RequestPolicies[computeCapacity] = &backendv1.RequestPolicy{Default: s.Compute, Range: &backendv1.AmountRange{Min: 1, Step: 1}}
	}
	if !slices.Contains(d.Hooks, sdk.HookPrepare) {
		d.Hooks = append(d.Hooks, sdk.HookPrepare)
	}
}

// shareEdits returns variables with the amounts that a holder has of a device; nil if it has none.
func shareEdits(f facts, amounts map[string]int64) *sdk.Edits {
	if len(amounts) == 0 {
		return nil
	}
	edits := &sdk.Edits{Env: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		edits.Env[fmt.Sprintf("ACCELMUX_MOCK_%s_%s", envName(f.id), strings.ToUpper(name))] = strconv.FormatInt(amounts[name], 10)
	}
	return edits
}
