package inventory

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// CodeUnspecified is the code of a fault that was reported without a valid code.
const CodeUnspecified = "unspecified"

// parser checks the devices of one report.
type parser struct {
	desc   Description
	policy Policy
	host   *hostCheck
	// roots are the PCIe roots of addresses that were looked up: sysfs is slow for thousands of partitions.
	roots map[string]string
}

func newParser(desc Description, policy Policy) *parser {
	policy = policy.With(desc)
	return &parser{desc, policy, newHostCheck(policy), map[string]string{}}
}

// check decodes a device and checks everything but links, which need the whole report; maxLinks is
// how many of them may count.
func (p *parser) check(backend, encoded string, maxLinks int) *checkedDevice {
	w := &backendv1.Device{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(encoded), w); err != nil {
		return &checkedDevice{err: errors.New("it is no valid protobuf message")}
	}
	c := &checkedDevice{id: w.GetId(), allLinks: len(w.GetLinks())}
	for _, l := range w.GetLinks()[:min(c.allLinks, maxLinks)] {
		c.links = append(c.links, reportedLink{l.GetPeerId(), l.GetKind(), l.GetCount(), l.GetDistance()})
	}
	edits := &editsParser{policy: p.policy, host: p.host}
	c.device, c.remark, c.err = p.device(backend, w, edits)
	c.optional = edits.optional
	c.storable = c.err == nil && c.remark == "" && !edits.nodesMissing && !p.host.absent && len(c.links) == c.allLinks
	return c
}

// checkListed is check for a device that may be listed: then it stays if files of the host that it had are missing.
func (p *parser) checkListed(backend, encoded string, maxLinks int, listed func(id string) bool) *checkedDevice {
	c := p.check(backend, encoded, maxLinks)
	var refused *policyError
	if errors.As(c.err, &refused) && refused.gone && listed(c.id) {
		p.host.absent = true
		defer func() { p.host.absent = false }()
		return p.check(backend, encoded, maxLinks)
	}
	return c
}

// pcieRoot returns the PCIe root of an address; "" if the host's sysfs does not have it.
func (p *parser) pcieRoot(busID string) string {
	sysfs := p.policy.Host.Sysfs
	if sysfs == "" || busID == "" {
		return ""
	}
	root, known := p.roots[busID]
	if !known {
		if attribute, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(busID, deviceattribute.WithFSFromRoot(sysfs)); err == nil {
			root = *attribute.Value.StringValue
		}
		p.roots[busID] = root
	}
	return root
}

// device returns a device without links. The remark is a message about what was corrected in a
// device that stays, or "".
func (p *parser) device(backend string, w *backendv1.Device, edits *editsParser) (d *Device, remark string, err error) {
	if err := checkID("the ID", w.GetId()); err != nil {
		return nil, "", err
	}
	d = &Device{Key: Key{Backend: backend, ID: w.GetId()}, PreparedFor: w.GetPreparedFor()}
	if d.Class, err = p.class(w.GetClass()); err != nil {
		return nil, "", err
	}
	if d.NUMANodes, err = parseNUMA(w.GetNumaNodes()); err != nil {
		return nil, "", err
	}
	if d.PCIBusID = w.GetPciBusId(); d.PCIBusID != "" && !pciSyntax.MatchString(d.PCIBusID) {
		return nil, "", fmt.Errorf("PCI address %s is malformed; write domain:bus:device.function in lower-case hex, such as 0000:65:00.0",
			quote(d.PCIBusID))
	}
	d.PCIeRoot = p.pcieRoot(d.PCIBusID)
	d.Shareable, d.Potential, d.MadeFor, d.SlowToPrepare = w.GetShareable(), w.GetPotential(), w.GetMadeFor(), w.GetSlowToPrepare()
	remarks := p.names(d, w)
	if d.Consumes, err = consumptions(w.GetConsumes()); err != nil {
		return nil, "", err
	}
	if d.Parent = w.GetParentId(); d.Parent != "" {
		if err := checkID("the parent's ID", d.Parent); err != nil {
			return nil, "", err
		}
		if d.Parent == d.ID {
			return nil, "", fmt.Errorf("it is its own parent; leave parent_id empty for a whole device")
		}
	}
	if d.ResetGroup = w.GetResetGroup(); d.ResetGroup != "" {
		if err := checkText(d.ResetGroup, maxResetGroup); err != nil {
			return nil, "", fmt.Errorf("the reset group %w", err)
		}
	}
	if d.Hooks, err = p.hooks(w.GetHooks()); err != nil {
		return nil, "", err
	}
	if d.Edits, err = edits.parse(w.GetEdits()); err != nil {
		return nil, "", err
	}
	if d.AdminEdits, err = edits.parse(w.GetAdminEdits()); err != nil {
		return nil, "", fmt.Errorf("for admin access: %w", err)
	}
	if err := checkOnDemand(d); err != nil {
		return nil, "", err
	}
	d.Health, remark = parseHealth(w.GetHealth())
	return d, strings.Join(slices.DeleteFunc(append(remarks, remark, edits.remark()), func(s string) bool { return s == "" }), "; "), nil
}

// checkOnDemand checks what potential devices, those that Prepare made, and those that are slow to prepare
// must and must not have.
func checkOnDemand(d *Device) error {
	switch {
	case d.SlowToPrepare && !d.Hooks.Prepare:
		return errors.New("it is slow to prepare, so it must have the prepare hook")
	case d.IsOnDemand() && (!d.Hooks.Prepare || !d.Hooks.Release):
		return errors.New("it is made by Prepare, so it must have both hooks")
	case d.MadeFor == "":
		return nil
	case d.Potential:
		return fmt.Errorf("it is potential and made for the holder %s; it is one of both", quote(d.MadeFor))
	case len(d.MadeFor) > maxHolder || strings.ContainsFunc(d.MadeFor, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("it is made for the holder %s, which is not the ID of a holder: 1 to %d printable ASCII characters", quote(d.MadeFor), maxHolder)
	}
	return nil
}

func (p *parser) class(class string) (string, error) {
	switch {
	case len(class) > maxClass || !classSyntax.MatchString(class):
		return "", fmt.Errorf("class %s is malformed; a class is a lower-case letter, then lower-case letters, digits or dashes, at most %d",
			quote(class), maxClass)
	case !slices.Contains(p.desc.Classes, class):
		return "", fmt.Errorf("class %s is none of those that the backend described (%s)",
			quote(class), text.Shorten(strings.Join(p.desc.Classes, ", "), maxMessage/2))
	}
	return class, nil
}

func (p *parser) hooks(wire []backendv1.Hook) (Hooks, error) {
	var h Hooks
	if len(wire) > maxHooks {
		return h, fmt.Errorf("it asks for %d hooks; at most %d are allowed", len(wire), maxHooks)
	}
	for _, hook := range wire {
		switch hook {
		case backendv1.Hook_HOOK_PREPARE:
			if !p.desc.Prepare {
				return h, fmt.Errorf("it asks for HOOK_PREPARE, but the backend did not describe ABILITY_PREPARE")
			}
			h.Prepare = true
		case backendv1.Hook_HOOK_RELEASE:
			if !p.desc.Release {
				return h, fmt.Errorf("it asks for HOOK_RELEASE, but the backend did not describe ABILITY_RELEASE")
			}
			h.Release = true
		default:
			return h, fmt.Errorf("it asks for hook %d, which this version does not know; a device must not depend on it", int32(hook))
		}
	}
	return h, nil
}

func parseNUMA(wire []uint32) ([]int, error) {
	if len(wire) == 0 {
		return nil, nil
	}
	if len(wire) > maxNUMANodes {
		return nil, fmt.Errorf("it names %d NUMA nodes; at most %d are allowed", len(wire), maxNUMANodes)
	}
	nodes := make([]int, 0, len(wire))
	for _, n := range wire {
		if n > maxNUMANode {
			return nil, fmt.Errorf("NUMA node %d does not exist; the largest is %d, and where sysfs has -1 the list stays empty",
				n, maxNUMANode)
		}
		nodes = append(nodes, int(n))
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// parseHealth never fails: a fault must not vanish because its code or message is invalid. A
// missing recovery counts as a reset, so that the device can recover.
func parseHealth(w *backendv1.Health) (h Health, remark string) {
	h.State = StateUnknown
	switch w.GetState() {
	case backendv1.HealthState_HEALTH_STATE_HEALTHY:
		h.State = StateHealthy
	case backendv1.HealthState_HEALTH_STATE_UNHEALTHY:
		h.State = StateUnhealthy
	case backendv1.HealthState_HEALTH_STATE_UNKNOWN, backendv1.HealthState_HEALTH_STATE_UNSPECIFIED:
	default:
		remark = fmt.Sprintf("health state %d is not known to this version; it counts as unknown", int32(w.GetState()))
	}
	h.Message = w.GetMessage()
	h.Recovered = w.GetRecovered() && h.State == StateHealthy
	if w.GetRecovered() && !h.Recovered {
		remark = "it reports recovered without being healthy; that counts only with HEALTH_STATE_HEALTHY"
	}
	var bad int
	if h.Cleared, bad = clearedCodes(w.GetClearedCodes()); bad > 0 {
		remark = fmt.Sprintf("%d of its cleared codes are invalid, or beyond the first %d", bad, maxCleared)
	}
	if h.State != StateUnhealthy {
		return h, remark
	}
	if h.Code = w.GetCode(); len(h.Code) > maxCode || !codeSyntax.MatchString(h.Code) {
		remark = fmt.Sprintf("its fault has the code %s; it counts as %q, a code is 1 to %d characters of A-Z, a-z, 0-9, '_', '.' and '-'",
			quote(h.Code), CodeUnspecified, maxCode)
		h.Code = CodeUnspecified
	}
	switch w.GetReach() {
	case backendv1.Reach_REACH_NEW_HOLDERS:
		h.Reach = ReachNewHolders
	case backendv1.Reach_REACH_HOLDERS:
		h.Reach = ReachHolders
	default:
		h.Reach = ReachDevice
	}
	switch w.GetRecovery() {
	case backendv1.Recovery_RECOVERY_SELF:
		h.Recovery = RecoverySelf
	case backendv1.Recovery_RECOVERY_RESET:
		h.Recovery = RecoveryReset
	case backendv1.Recovery_RECOVERY_REBOOT:
		h.Recovery = RecoveryReboot
	case backendv1.Recovery_RECOVERY_REPLACEMENT:
		h.Recovery = RecoveryReplacement
	default:
		h.Recovery = RecoveryReset
		remark = fmt.Sprintf("its fault %s has the unknown recovery %d; it counts as RECOVERY_RESET",
			h.Code, int32(w.GetRecovery()))
	}
	return h, remark
}

// clearedCodes returns the valid codes; bad is the number of others.
func clearedCodes(wire []string) (codes Codes, bad int) {
	var valid []string
	for _, code := range wire {
		if len(code) > maxCode || !codeSyntax.MatchString(code) || len(valid) == maxCleared {
			bad++
			continue
		}
		valid = append(valid, code)
	}
	return newCodes(valid), bad
}

// linkLimit returns how many links each of a number of devices may have.
func linkLimit(devices int) int { return min(maxLinks, maxAllLinks/max(devices, 1)) }

// links returns the valid links of the device with that ID; wire are the first of total links,
// devices is the number of devices of the backend, listed has those that a link may name. The remark
// is about dropped links.
func links(id string, devices int, wire []reportedLink, total int, listed map[string]entry) (out []Link, remark string) {
	var (
		dropped int
		first   string
		drop    = func(format string, args ...any) {
			if dropped++; dropped == 1 {
				first = fmt.Sprintf(format, args...)
			}
		}
	)
	if most := linkLimit(devices); total > most {
		drop("each of %d devices may have %d", devices, most)
		dropped = total - most
		wire = wire[:most]
	}
	type sort struct {
		peer   string
		direct bool
	}
	seen := make(map[sort]bool, len(wire))
	for _, w := range wire {
		peer := w.peer
		_, found := listed[peer]
		kind, known := linkKinds[w.kind]
		direct := Link{Kind: kind}.Direct()
		switch {
		case !found:
			drop("peer %s is not a listed device", quote(peer))
		case peer == id:
			drop("it links to itself")
		case seen[sort{peer, direct}] && direct:
			drop("there are two direct links to %s: report one, with their number as its count", peer)
		case seen[sort{peer, direct}]:
			drop("there are two paths to %s: report the best", peer)
		case !known:
			drop("that to %s has the unknown kind %d", peer, int32(w.kind))
		case w.count > maxLinkCount || w.distance > math.MaxInt32:
			drop("that to %s has the impossible count %d or distance %d", peer, w.count, w.distance)
		default:
			seen[sort{peer, direct}] = true
			out = append(out, Link{
				Peer: peer, Kind: kind, Count: max(1, int(w.count)), Distance: int(w.distance),
			})
		}
	}
	if dropped > 0 {
		remark = fmt.Sprintf("%d of its %d links are dropped; the first because %s", dropped, total, first)
	}
	return out, remark
}

// linkKinds are the wire's names in lower case without their prefix.
var linkKinds = func() map[backendv1.LinkKind]string {
	kinds := make(map[backendv1.LinkKind]string, len(backendv1.LinkKind_name))
	for number, name := range backendv1.LinkKind_name {
		if kind := backendv1.LinkKind(number); kind != backendv1.LinkKind_LINK_KIND_UNSPECIFIED {
			kinds[kind] = strings.ToLower(strings.TrimPrefix(name, "LINK_KIND_"))
		}
	}
	return kinds
}()

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
