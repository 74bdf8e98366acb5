package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// computeCapacity is the capacity of a shared device's compute, in percent.
const computeCapacity, memoryCapacity = "compute", "memory"

// share is how claims may have a part of a capacity: what one gets that requests nothing, and the bounds of what one
// may request. Written as an amount, it is the default, and any amount is possible.
type share struct {
	Default quantity   `json:"default"`
	Min     quantity   `json:"min"`
	Max     quantity   `json:"max"`
	Step    quantity   `json:"step"`
	Values  []quantity `json:"values"`
}

func (s *share) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return s.Default.UnmarshalJSON(data)
	}
	type plain share
	return json.Unmarshal(data, (*plain)(s))
}

// capacities returns those of a whole device.
func (g *group) capacities() map[string]int64 {
	all := map[string]int64{}
	if _, ok := g.Shares[computeCapacity]; ok {
		all[computeCapacity] = 100
	}
	for name, amount := range g.Capacities {
		all[name] = int64(amount)
	}
	if g.Memory > 0 {
		all[memoryCapacity] = int64(g.Memory)
	}
	return all
}

// checkShares checks the shares of a group, whose devices may be partitions.
func (g *group) checkShares(at string, errs *sdk.FieldErrors) {
	parts, all := int64(1), g.capacities()
	if p := g.Partitions; p != nil && len(g.Shares) > 0 {
		if len(p.Profiles) > 0 {
			errs.Add(at, "a device has shares or partitions that claims make, not both")
			return
		}
		parts = max(int64(p.Count), 1)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Shares)) {
		switch s, amount := g.Shares[name], all[name]/parts; {
		case all[name] == 0:
			errs.Add(at+"."+name, "the device has no such capacity: add it to capacities")
		case s.Default < 1 || int64(s.Default) > amount:
			errs.Add(at+"."+name, "%d is out of range: 1 to %d, that of the device", s.Default, amount)
		case len(s.Values) > 0 && s.Min+s.Max+s.Step > 0:
			errs.Add(at+"."+name, "give values, or min, max and step")
		}
	}
}

// describeShares makes a device shareable.
func (g *group) describeShares(d *sdk.Device) {
	if len(g.Shares) == 0 {
		return
	}
	d.Shareable, d.RequestPolicies = true, map[string]*backendv1.RequestPolicy{}
	for name, s := range g.Shares {
		policy := &backendv1.RequestPolicy{Default: int64(s.Default)}
		for _, v := range s.Values {
			policy.Values = append(policy.Values, int64(v))
		}
		if len(s.Values) == 0 {
			policy.Range = &backendv1.AmountRange{Min: int64(max(s.Min, 1)), Max: int64(s.Max), Step: int64(max(s.Step, 1))}
		}
		d.RequestPolicies[name] = policy
	}
	if !slices.Contains(d.Hooks, sdk.HookPrepare) {
		d.Hooks = append(d.Hooks, sdk.HookPrepare)
	}
}

// amountsOf returns what placeholders for the capacities of a group stand for.
func amountsOf(g *group, amounts map[string]int64) map[string]string {
	all := map[string]string{}
	for name := range g.capacities() {
		all[name] = noValue
		if amount, ok := amounts[name]; ok {
			all[name] = strconv.FormatInt(amount, 10)
		}
	}
	return all
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
