package holders

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// ClaimRecord is what one driver serves of a claim, as it is on disk.
type ClaimRecord struct {
	Claim
	// Prepared: the devices are ready for containers. Otherwise their preparation or their end has
	// begun; they must be prepared again before they are used, and released when the claim ends.
	Prepared bool `json:"prepared"`
	// BootID is the kernel's identification of the boot in which the devices were prepared. In
	// another one they must be prepared again.
	BootID string `json:"bootID"`
	// Unbound: the devices are prepared before the pod is bound to the node, and kubelet has not asked for
	// them: no container has them.
	Unbound bool `json:"unbound,omitempty"`
	// Devices are in the order of the allocation's results; at least one.
	Devices []ClaimDevice `json:"devices"`
}

// ClaimDevice is a result of a claim's allocation.
type ClaimDevice struct {
	// Request is the request's name, with the name of the chosen alternative after a slash.
	Request string `json:"request"`
	// Pool and Name are those in the ResourceSlice, Backend and ID those of the inventory.
	Pool    string `json:"pool"`
	Name    string `json:"name"`
	Backend string `json:"backend"`
	ID      string `json:"id"`
	// Share identifies a share of a device that may have several; "" for others.
	Share types.UID `json:"share,omitempty"`
	// Amounts are what the share has of each capacity of the device that is divided.
	Amounts map[string]int64 `json:"amounts,omitempty"`
	// Admin: the claim has admin access. The device may have other holders, and the claim does
	// not hold it.
	Admin bool `json:"admin,omitempty"`
	// ResetGroup and Parents are the reset scope of a device that the claim holds; the book sets them.
	ResetGroup string   `json:"resetGroup,omitempty"`
	Parents    []string `json:"parents,omitempty"`
	// CDI is the name of the definition of this device for this claim.
	CDI string `json:"cdi"`
	// Parameters are those that the backend's Prepare got; nil for none.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Edits is the content of the definition; nil if the claim was never prepared.
	Edits json.RawMessage `json:"edits,omitempty"`
}

// Key returns the device's key in the inventory.
func (d ClaimDevice) Key() inventory.Key { return inventory.Key{Backend: d.Backend, ID: d.ID} }

// claimMagic is the kind and version of a claim's file. Versions and the releases that read them:
//
//	1  all releases with dynamic resource allocation
const claimMagic = "accelmux-claim/1"

// decodeClaim returns the claim in a file's payload. A payload with the right checksum that is incomplete
// or not JSON is corrupt, too.
func decodeClaim(payload []byte) (*ClaimRecord, error) {
	c := &ClaimRecord{}
	if err := json.Unmarshal(payload, c); err != nil {
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return c, nil
}

var errIncomplete = errors.New("the claim is incomplete")

func (c *ClaimRecord) check() error {
	if c.Driver == "" || c.UID == "" || c.Namespace == "" || c.Name == "" || len(c.Devices) == 0 {
		return errIncomplete
	}
	for _, d := range c.Devices {
		if d.Request == "" || d.Pool == "" || d.Name == "" || d.Backend == "" || d.ID == "" || d.CDI == "" {
			return errIncomplete
		}
	}
	return nil
}

// adminAccess returns the devices to which the claim has admin access.
func (c *ClaimRecord) adminAccess() (devices []inventory.Key) {
	for _, d := range c.Devices {
		if d.Admin {
			devices = append(devices, d.Key())
		}
	}
	return devices
}

func (c *ClaimRecord) has(device inventory.Key) bool {
	return slices.ContainsFunc(c.Devices, func(d ClaimDevice) bool { return d.Key() == device })
}

func compareClaims(a, b *ClaimRecord) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// held returns the devices that the claim holds, each once: it may have several shares of one.
func (c *ClaimRecord) held() (devices []ClaimedDevice) {
	for _, d := range c.Devices {
		if d.Admin {
			continue
		}
		i := slices.IndexFunc(devices, func(h ClaimedDevice) bool { return h.Device == d.Key() })
		if i < 0 {
			i = len(devices)
			devices = append(devices, ClaimedDevice{
				Device: d.Key(), Shared: d.Share != "", Reset: ResetScope{Group: d.ResetGroup, Parents: d.Parents},
			})
		}
		if devices[i].Amounts == nil && len(d.Amounts) > 0 {
			devices[i].Amounts = map[string]int64{}
		}
		for capacity, amount := range d.Amounts {
			devices[i].Amounts[capacity] += amount
		}
	}
	return devices
}

// clone returns a copy. The raw JSON is shared, and must not be changed.
func (c *ClaimRecord) clone() *ClaimRecord {
	copied := *c
	copied.Devices = slices.Clone(c.Devices)
	return &copied
}

// fileName returns the name of the claim's file. Neither a driver's name nor a UID has an
// underscore.
func (i ClaimID) fileName() string { return i.Driver + "_" + string(i.UID) }

// safe is the syntax of the parts of a file's name: those of a DNS subdomain. A UID is one in
// every known API server, and is checked because it becomes a path.
var safe = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,126}[a-z0-9])?$`)

func (i ClaimID) check() error {
	if !safe.MatchString(i.Driver) || !safe.MatchString(string(i.UID)) {
		return fmt.Errorf("the driver name %q or the UID %q of a claim cannot be part of a file's name", i.Driver, i.UID)
	}
	return nil
}

// loadClaims reads the claims, which hold their devices from then on, even if another holder has one. Files that cannot be
// read are problems. They stay: their names have the claims, and a program of another version may read them.
func (b *Book) loadClaims() error {
	if _, err := checkpoint.Sweep(b.claims.dir, ""); err != nil {
		return fmt.Errorf("open the record of claims: %w", err)
	}
	entries, err := os.ReadDir(b.claims.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open the record of claims: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, entry := range entries {
		driver, uid, ok := strings.Cut(entry.Name(), "_")
		if i := (ClaimID{driver, types.UID(uid)}); ok && i.check() == nil {
			b.loadClaim(i)
		}
	}
	return nil
}

// loadClaim reads a claim's file. The caller holds b.mu.
func (b *Book) loadClaim(i ClaimID) {
	var c *ClaimRecord
	payload, err := checkpoint.Read(b.claims.path(i), claimMagic)
	if err == nil {
		c, err = decodeClaim(payload)
	}
	if err == nil && c.ID() != i {
		err = fmt.Errorf("%w: it has another claim, %s of driver %s", checkpoint.ErrCorrupt, c.UID, c.Driver)
	}
	if err != nil {
		b.claims.unreadable[i] = err.Error()
		return
	}
	b.claims.all[i] = c
	b.giveClaim(c.Claim, c.held())
	for _, d := range c.held() {
		delete(b.ended.sent, Ended{c.ref(), d.Device}) // its end did not get as far as the record
	}
}

func (c *claims) path(i ClaimID) string { return filepath.Join(c.dir, i.fileName()) }

// write writes a claim's file.
func (s *Claims) write(c *ClaimRecord) error {
	i := c.ID()
	err := errors.Join(i.check(), c.check())
	var payload []byte
	if err == nil {
		payload, err = json.MarshalIndent(c, "", " ")
	}
	if err == nil {
		err = s.book.opts.Disk.Write(s.book.claims.path(i), claimMagic, payload)
	}
	if err != nil {
		return fmt.Errorf("store claim %s: %w", c, err)
	}
	return nil
}
