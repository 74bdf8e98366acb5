package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// claimsSeen is what an observation has of claims.
type claimsSeen struct {
	// Sliced says that the following is certain: the devices in the slices, and those that have to be
	// there; healthy ones have no taint.
	Sliced           bool
	Published, Wants map[string]health
	// Drivers are those that kubelet knows, Trouble what the slices have that cannot be.
	Drivers []string
	Trouble string
	// Served says that the driver must be there.
	Served bool

	// Made are the partitions that exist, with the UIDs of their claims; Having those that pods have; Left
	// those whose claims have ended.
	Made, Having map[string]string
	Left         []string
	// Shares are those that pods have of the shared device, by the UIDs of their claims.
	Shares map[string]int64

	// Ended says that the following is certain. Recorded are the UIDs of claims in the agent's record,
	// Defined those in CDI specs, Alive those of pods, with the claim's name, Ending pods that should
	// have gone.
	Ended             bool
	Recorded, Defined []string
	Alive             map[string]string
	Ending            []string
}

// lookAtClaims adds what there is of claims to an observation.
func (w *world) lookAtClaims(ctx context.Context, o *observation) {
	if w.claims.kubelet == nil {
		return
	}
	c := &o.Claims
	c.Sliced = !w.m.away && !w.anyDown() && !w.m.epsilon.wild && !w.m.diskFull && !w.m.readOnly
	c.Served, c.Drivers = w.m.claimed() && w.m.kubelet, w.claims.kubelet.Drivers()
	published, err := w.claims.published(ctx)
	if err != nil {
		c.Trouble = err.Error()
	}
	c.Published, c.Wants = map[string]health{}, w.m.published(o.Holds)
	for id, d := range published {
		if c.Published[id] = healthy; len(d.Taints) > 0 {
			c.Published[id] = unhealthy
		}
	}
	c.Ended = w.m.kubelet && !w.m.diskFull && !w.m.readOnly && !w.m.unsaved
	c.Alive = map[string]string{}
	for _, p := range w.claims.all() {
		if p.ending {
			c.Ending = append(c.Ending, p.name)
		}
		c.Alive[p.claim.UID] = p.claim.Name
	}
	w.lookAtPartitions(o)
	c.Shares = w.sharesOf()
}

// lookAtRecord adds what takes longer.
func (w *world) lookAtRecord(o *observation) {
	entries, err := os.ReadDir(w.path("disk", "state", "claims"))
	if err != nil {
		return // none yet
	}
	for _, entry := range entries {
		_, uid, _ := strings.Cut(entry.Name(), "_")
		o.Claims.Recorded = append(o.Claims.Recorded, uid)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(w.path("disk", "cdi")), cdi.WithAutoRefresh(false))
	if err != nil {
		return // allResolve tells
	}
	for _, name := range cache.ListDevices() {
		if ofClaim(name) {
			// A UID, not the digest in the name of a container's own definition.
			if _, uid, _ := strings.Cut(name, "::"); strings.Contains(uid, "-") {
				o.Claims.Defined = append(o.Claims.Defined, uid)
			}
		}
	}
}

// published are the devices that slices must have, and how.
func (m *model) published(holds []hold) map[string]health {
	all := map[string]health{}
	for _, d := range m.iota.devices {
		h := m.deviceHealth(m.iota, d, holds)
		for _, hold := range holders(holds, d.id) {
			switch {
			case hold.Resource != claimHold:
				h = absent
			case h&absent != 0:
				h |= unhealthy // one that vanished stays visible while it is held
			}
		}
		if !m.claimed() {
			h = absent
		}
		all[d.id] = h
	}
	for _, id := range append(slices.Collect(maps.Keys(partitions())), sharedDevice) {
		if all[id] = absent; m.claimed() {
			all[id] = healthy
		}
	}
	return all
}

func slicesRight(o *observation) string {
	c := &o.Claims
	if c.Trouble != "" {
		return c.Trouble
	}
	if c.Served && !slices.Contains(c.Drivers, claimDriver) {
		return "kubelet knows the drivers " + fmt.Sprint(c.Drivers)
	}
	if !c.Sliced {
		return ""
	}
	for _, id := range slices.Sorted(maps.Keys(c.Wants)) {
		have, ok := c.Published[id]
		if !ok {
			have = absent
		}
		if have&c.Wants[id] == 0 {
			return fmt.Sprintf("%s is %v in the slices, and should be %v", id, have, c.Wants[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Published)) {
		if _, ok := c.Wants[id]; !ok {
			return fmt.Sprintf("%s is in the slices, and is no device of the backend", id)
		}
	}
	return ""
}

func claimsAreOver(o *observation) string {
	c := &o.Claims
	if !c.Ended {
		return ""
	}
	if len(c.Ending) > 0 {
		return fmt.Sprintf("kubelet cannot end the pods %v, as their claims are not unprepared", c.Ending)
	}
	for _, uid := range c.Recorded {
		if c.Alive[uid] == "" {
			return "claim " + uid + " has ended, and is in the agent's record"
		}
	}
	for _, uid := range c.Defined {
		if c.Alive[uid] == "" {
			return "claim " + uid + " has ended, and is defined in a CDI spec"
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.Alive)) {
		if !slices.Contains(c.Recorded, uid) {
			return c.Alive[uid] + " (" + uid + ") is prepared, and is not in the agent's record"
		}
	}
	return ""
}
