package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Backend iota has a device of 4 slices, which is listed as the partitions that could be made of it, each for
// a claim. They are in a resource while iota's other devices are for claims.
const (
	partitionsName = "example.com/made"
	// madeFile is the backend's record of the partitions that exist, with the claims' UIDs: the hardware.
	madeFile = "made"
)

// partitionSizes are the slices of a partition by its profile. There is one at each multiple of its size.
var partitionSizes = map[string]int{"one": 1, "two": 2, "four": 4}

const partitionSlices = 4

// partitions are the slices of all partitions by their IDs.
func partitions() map[string][]int {
	all := map[string][]int{}
	for profile, size := range partitionSizes {
		for first := 0; first < partitionSlices; first += size {
			for i := range size {
				id := fmt.Sprintf("p-0-%s-%d", profile, first)
				all[id] = append(all[id], first+i)
			}
		}
	}
	return all
}

// overlapping returns a slice that several of the partitions have, and these; nil if there is none.
func overlapping(ids []string) (slice int, of []string) {
	all := partitions()
	for slice := range partitionSlices {
		var have []string
		for _, id := range ids {
			if slices.Contains(all[id], slice) {
				have = append(have, id)
			}
		}
		if len(have) > 1 {
			return slice, have
		}
	}
	return 0, nil
}

// claimPartition starts a pod with a claim for a partition.
func (w *world) claimPartition(ctx context.Context, arg int) error {
	profile, _ := pick(slices.Sorted(maps.Keys(partitionSizes)), arg/2)
	return w.startPod(ctx, &podClaim{shape: shape{count: 1, requests: 1, kept: arg%2 == 1, profile: profile}})
}

// choosePartition chooses the claim's partition as the scheduler does, by the counters.
func (c *podClaim) choosePartition(published map[string]resourceapi.Device, taken map[string]bool) {
	var used []string
	for id, p := range published {
		if taken[p.Name] {
			used = append(used, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(partitions())) {
		p, ok := published[id]
		if _, of := overlapping(append(used, id)); !ok || len(p.Taints) > 0 || taken[p.Name] || of != nil || !strings.Contains(id, "-"+c.profile+"-") {
			continue
		}
		c.devices = []string{id}
		return
	}
}

// overlap reports whether a pod has slices of the claim's partition: its own claim was deleted.
func (c *claims) overlap(claim *podClaim) bool {
	return slices.ContainsFunc(c.all(), func(p claimPod) bool {
		_, of := overlapping(slices.Concat(claim.devices, p.claim.devices))
		return p.claim != claim && of != nil
	})
}

// killPreparing is claimPartition with a kill -9 of the backend, or the agent, while it makes the partition.
func (w *world) killPreparing(ctx context.Context, arg int) error {
	p, _ := w.active(ctx)
	pid := w.pid(ctx, w.m.iota)
	if p == nil || pid == 0 || w.m.iota.down() {
		return errSkip
	}
	w.rushed = true // it need not be prepared
	w.watch.spareAll()
	agent := arg%2 == 1
	if agent {
		pid = p.pid
	}
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	killed, before := make(chan bool, 1), w.logged()
	go func() { killed <- w.killAtPrepare(until, before, pid) }()
	err := w.claimPartition(ctx, arg/2)
	cancel()
	switch {
	case !<-killed:
		return err
	case agent:
		return errors.Join(err, w.killThat(ctx, p, false))
	default:
		w.killed[pid] = w.m.iota
	}
	return err
}

// logged is how many bytes the log of calls has.
func (w *world) logged() int64 {
	info, err := os.Stat(w.path(callLog))
	if err != nil {
		return 0
	}
	return info.Size()
}

// killAtPrepare kills a process when the log of calls is longer than before, and reports whether it did.
func (w *world) killAtPrepare(ctx context.Context, before int64, pid int) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for w.logged() <= before {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return hurt(pid, syscall.SIGKILL) == nil
}

// lookAtPartitions adds the partitions that exist, those that living pods have, and those of claims that have
// ended, if that is certain.
func (w *world) lookAtPartitions(o *observation) {
	c := &o.Claims
	c.Made, c.Having, c.Left = map[string]string{}, map[string]string{}, nil
	for _, p := range w.claims.living() {
		if p.claim.prepared && p.claim.profile != "" {
			c.Having[p.claim.devices[0]] = p.claim.UID
		}
	}
	text, err := os.ReadFile(w.path(madeFile))
	if err == nil {
		err = json.Unmarshal(text, &c.Made)
	}
	if err != nil && !os.IsNotExist(err) {
		o.Incidents[partitionsHold] = err.Error()
	}
	for id, uid := range c.Made {
		if c.Ended && !w.m.iota.down() && c.Alive[uid] == "" {
			c.Left = append(c.Left, id+" of "+uid)
		}
	}
}

func partitionsRight(o *observation) string {
	c := &o.Claims
	if slice, of := overlapping(slices.Sorted(maps.Keys(c.Made))); of != nil {
		return fmt.Sprintf("slice %d is in the partitions %v", slice, of)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Having)) {
		if c.Made[id] != c.Having[id] {
			return fmt.Sprintf("%s does not exist for the claim %s, which pods have, but for %q", id, c.Having[id], c.Made[id])
		}
	}
	return o.Incidents[partitionsHold]
}

func partitionsEnd(o *observation) string {
	if len(o.Claims.Left) == 0 {
		return ""
	}
	return fmt.Sprintf("%v exist, and their claims have ended", o.Claims.Left)
}
