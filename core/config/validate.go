package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/suggestion"
)

// The bounds on numbers and durations.
const (
	minHeartbeat     = 100 * time.Millisecond
	maxHeartbeat     = time.Minute
	maxHoldover      = 24 * time.Hour
	maxRecoveryDelay = time.Hour
	minSample        = time.Second
	maxSample        = 10 * time.Minute
	maxReplicas      = 1000
	maxPriority      = 1_000_000
	maxFeatures      = 16
	maxVendorLabels  = 8
	maxIgnored       = 64
	maxGID           = 1<<32 - 2 // (gid_t)-1 is invalid
)

// validator checks what the types cannot express. It reports a field once: it skips fields that
// decoding refused.
type validator struct {
	*decoder
	// prefixes are the featurePrefixes of all profiles.
	prefixes map[string]bool
}

// check reports err, if any, at the position of the field or of its closest parent in the file.
func (v *validator) check(path string, err error) {
	if err != nil {
		v.report(path, "%s", err)
	}
}

func (v *validator) report(path, format string, args ...any) {
	if v.failedAbove(path) {
		return
	}
	v.fail(v.positions.Of(path), path, format, args...)
}

// failedAbove reports whether the field or one of its parents has a reported error.
func (v *validator) failedAbove(path string) bool {
	for p := path; p != ""; p = parentPath(p) {
		if v.failed[p] {
			return true
		}
	}
	return v.failed[""]
}

// required reports an error for an empty string, and returns whether the string is set.
func (v *validator) required(path, value, example string) bool {
	if value == "" {
		v.report(path, "is required%s", example)
	}
	return value != ""
}

// unique reports an error for a value that an earlier item of the list has.
func (v *validator) unique(seen map[string]string, path, value string) {
	if value == "" {
		return
	}
	if first, dup := seen[value]; dup {
		v.report(path, "%s is already used by %s, on line %d", show(value), parentPath(first), v.positions.Of(first).Line)
		return
	}
	seen[value] = path
}

func (v *validator) config(c *NodeConfig) {
	v.header("apiVersion", c.APIVersion, APIVersion)
	v.header("kind", c.Kind, Kind)
	if len(c.Profiles) == 0 {
		v.report("profiles", "at least one profile is required")
	}
	for _, p := range c.Profiles {
		for _, b := range p.Backends {
			v.prefixes[b.FeaturePrefix] = true
		}
	}
	names := map[string]string{}
	for i := range c.Profiles {
		p, at := &c.Profiles[i], itemPath("profiles", i)
		if v.required(at+".name", p.Name, ", such as default") {
			v.check(at+".name", checkProfileName(p.Name))
		}
		v.unique(names, at+".name", p.Name)
		v.placement(p, at)
		v.profile(p, at)
	}
}

func (v *validator) header(path, got, want string) {
	switch got {
	case want:
	case "":
		v.report(path, "is missing: write %s: %s", path, want)
	default:
		v.report(path, "must be %s, is %s", want, show(got))
	}
}

func (v *validator) profile(p *Profile, at string) {
	if len(p.Backends) == 0 {
		v.report(at+".backends", "at least one backend is required")
	}
	if n := len(p.IgnorePCI); n > maxIgnored {
		v.report(at+".ignorePCI", "must have at most %d entries, has %d", maxIgnored, n)
	}
	for i, id := range p.IgnorePCI {
		v.check(itemPath(at+".ignorePCI", i), checkPCI(id))
	}
	servesDRA := slices.ContainsFunc(p.Resources, func(r Resource) bool { return r.API == APIDRA })
	names, prefixes, drivers := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range p.Backends {
		b, at := &p.Backends[i], itemPath(at+".backends", i)
		if v.required(at+".name", b.Name, ", such as mock") {
			v.check(at+".name", checkBackendName(b.Name))
		}
		v.unique(names, at+".name", b.Name)
		v.backend(b, at)
		if v.given(at + ".featurePrefix") {
			v.check(at+".featurePrefix", checkFeaturePrefix(b.FeaturePrefix, b.Name))
			v.unique(prefixes, at+".featurePrefix", b.FeaturePrefix)
		}
		if n := len(b.VendorLabels); n > maxVendorLabels {
			v.report(at+".vendorLabels", "must have at most %d entries, has %d", maxVendorLabels, n)
		}
		for i, prefix := range b.VendorLabels {
			at := itemPath(at+".vendorLabels", i)
			v.check(at, checkFeaturePrefix(prefix, b.Name))
			v.unique(prefixes, at, prefix)
		}
		if servesDRA || v.given(at+".dra.driver") { // the default is too long for a long name
			v.check(at+".dra.driver", checkDriver(b.DRA.Driver))
		}
		if !v.failed[at+".name"] { // two backends of one name have one default
			v.unique(drivers, at+".dra.driver", b.DRA.Driver)
		}
	}
	v.misspelt(p, at)
	backends := slices.Sorted(maps.Keys(names))
	complete := !v.broken[at+".backends"] && !v.failed[at+".backends"]
	resources := map[string]string{}
	for i := range p.Resources {
		r, at := &p.Resources[i], itemPath(at+".resources", i)
		if v.required(at+".name", r.Name, ", such as example.com/gpu") {
			_, err := ParseName(r.Name)
			v.check(at+".name", err)
		}
		v.unique(resources, at+".name", r.Name)
		v.resource(r, at)
		v.references(r, at, backends, complete)
		if complete {
			v.resetAfterUse(p, r, at)
		}
	}
}

// misspelt reports backends whose names are nearly those of accelmux's own programs, which a resource has as they are: what to
// correct is the backend, and not the resource.
func (v *validator) misspelt(p *Profile, at string) {
	for i, b := range p.Backends {
		for _, name := range shipped {
			isThere := p.Backend(name) != nil || v.given(itemPath(at+".backends", i)+".command")
			of := slices.IndexFunc(p.Resources, func(r Resource) bool {
				return r.Backend == name || strings.Contains(r.Selector, strconv.Quote(name))
			})
			if !isThere && of >= 0 && suggestion.IsMisspelt(b.Name, name) {
				v.report(itemPath(at+".backends", i)+".name", "no backend is called %s; did you mean %q, as resource %s says?", show(b.Name), name, p.Resources[of].Name)
			}
		}
	}
}

func (v *validator) backend(b *Backend, at string) {
	if v.given(at + ".command") {
		v.check(at+".command", checkCommand(b.Command))
	}
	if b.Checksum != "" {
		v.check(at+".checksum", checkChecksum("for the program", "sha256sum", b.Checksum))
	}
	if b.ManifestChecksum != "" {
		v.check(at+".manifestChecksum", checkChecksum("for the manifest", "accelmux backends", b.ManifestChecksum))
	}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		v.check(FieldPath(at+".env", name), checkEnv(name, b.Env[name]))
	}
	v.duration(at+".heartbeat", b.Heartbeat, minHeartbeat, maxHeartbeat)
	v.duration(at+".holdover", b.Holdover, 0, maxHoldover)
	v.duration(at+".recovery.delay", b.Recovery.Delay, 0, maxRecoveryDelay)
	if name, isProgram := strings.CutPrefix(b.Name, "accelmux-backend-"); isProgram {
		v.report(at+".name", "is a program's name: write %s", name)
	}
	oneOf(v, at+".recovery.reset", b.Recovery.Reset, ResetAuto, ResetNever)
	oneOf(v, at+".allow.declared", b.Allow.Declared, acceptances...)
	v.allowed(at+".allow.devices", inventory.UseNode, b.Allow.Devices, checkPattern)
	v.allowed(at+".allow.mounts", inventory.UseMount, b.Allow.Mounts, checkPattern)
	v.allowed(at+".allow.hooks", inventory.UseHook, b.Allow.Hooks, checkHook)
	v.allowed(at+".allow.env", inventory.UseEnv, b.Allow.Env, checkEnvPattern)
	for i, gid := range b.Allow.GIDs {
		v.integer(itemPath(at+".allow.gids", i), gid, 1, maxGID)
	}
	for i, name := range b.Allow.NetDevices {
		v.check(itemPath(at+".allow.netDevices", i), checkInterfacePattern(name))
	}
	v.sandbox(b, at)
	v.features(at+".features", b.Features)
	v.kinds(at+".dra.kinds", b.DRA.Kinds)
	oneOf(v, at+".telemetry.sample", b.Telemetry.Sample, sampleModes...)
	v.duration(at+".telemetry.interval", b.Telemetry.Interval, minSample, maxSample)
}

// features checks the names of attributes.
func (v *validator) features(path string, names []string) {
	if len(names) > maxFeatures {
		v.report(path, "at most %d attributes can be features, these are %d", maxFeatures, len(names))
	}
	for i, name := range names {
		v.check(itemPath(path, i), checkIdentifier("an attribute", name))
		if slices.Contains(names[:i], name) {
			v.report(itemPath(path, i), "%s is listed twice", show(name))
		}
	}
}

func (v *validator) resource(r *Resource, at string) {
	if r.Class != "" {
		v.check(at+".class", checkClass(r.Class))
	}
	oneOf(v, at+".api", r.API, APIDevicePlugin, APIDRA)
	if r.API == APIDRA {
		v.onlyDevicePlugin(r, at)
	}
	v.integer(at+".replicas", r.Replicas, 1, maxReplicas)
	if limit := r.MaxReplicasPerContainer; limit != nil {
		v.integer(at+".maxReplicasPerContainer", *limit, 0, maxReplicas)
		if r.Replicas == 1 {
			v.report(at+".maxReplicasPerContainer", "has a meaning only with replicas of 2 or more")
		}
	}
	oneOf(v, at+".injection", r.Injection, InjectAuto, InjectCDI, InjectCDIAnnotations, InjectPlain)
	if v.given(at + ".annotationPrefix") {
		v.check(at+".annotationPrefix", checkAnnotationPrefix(r))
	}
	oneOf(v, at+".registration", r.Registration, RegisterSocket, RegisterWatcher)
	oneOf(v, at+".reset", r.Reset, ResetDevicesNever, ResetDevicesAfterUse)
	v.allocation(at+".allocation", &r.Allocation)
	v.parameters(at+".parameters", r.Parameters)
}

// resetAfterUse refuses resets if the backends of all devices that the resource can have must not reset any.
// Of one that also selects devices of others, the former get a fault (round.Unresettable).
func (v *validator) resetAfterUse(p *Profile, r *Resource, at string) {
	var names []string
	for _, b := range p.Backends {
		switch {
		case r.Backend != "" && r.Backend != b.Name:
		case b.Recovery.Reset != ResetNever:
			return
		default:
			names = append(names, b.Name)
		}
	}
	if r.Reset == ResetDevicesAfterUse && len(names) > 0 {
		v.report(at+".reset", "%s contradicts recovery.reset: %s of backend %s: no device of it is ever reset", ResetDevicesAfterUse, ResetNever, strings.Join(names, ", "))
	}
}

// onlyDevicePlugin refuses what a resource with APIDRA must not have.
func (v *validator) onlyDevicePlugin(r *Resource, at string) {
	refuse := func(field string, has bool, instead string) {
		if has {
			v.report(at+"."+field, "is not for api: %s: %s", APIDRA, instead)
		}
	}
	const names = "kubelet gives CDI names to the container runtime"
	refuse("replicas", r.Replicas != DefaultReplicas, "a device that may be shared is published as such, and claims say how much of it they want")
	refuse("injection", r.Injection != DefaultInjection, names)
	refuse("annotationPrefix", r.AnnotationPrefix != DefaultAnnotationPrefix, names)
	refuse("registration", r.Registration != DefaultRegistration, "the driver registers in plugins_registry")
	refuse("allocation", r.Allocation != Allocation{DefaultAllocationPolicy, DefaultLinks}, "the scheduler chooses devices, in the order in which they are published")
	refuse("parameters", len(r.Parameters) > 0, "claims and device classes have opaque parameters")
}

// allocation checks the policy and the link measure.
func (v *validator) allocation(at string, a *Allocation) {
	oneOf(v, at+".policy", a.Policy, policies...)
	oneOf(v, at+".links", a.Links, LinksSum, LinksWeakest)
}

// references checks a resource's references to the backends of its profile. If errors in the
// file left out backends (complete is false), a missing backend is not reported.
func (v *validator) references(r *Resource, at string, backends []string, complete bool) {
	if r.Backend != "" {
		if complete && !slices.Contains(backends, r.Backend) {
			v.report(at+".backend", "no backend %s in this profile%s", show(r.Backend), suggestion.OrAll(r.Backend, "it has", backends))
			complete = false
		}
		backends = []string{r.Backend}
	}
	if r.Selector == "" {
		return
	}
	compiled, err := CompileSelector(r.Selector)
	if err == nil && complete {
		err = checkSelectorDomains(compiled, backends)
	}
	v.check(at+".selector", err)
}

func (v *validator) duration(path string, got Duration, least, most time.Duration) {
	if time.Duration(got) < least || time.Duration(got) > most {
		v.report(path, "must be between %s and %s, is %s", Duration(least), Duration(most), got)
	}
}

func (v *validator) integer(path string, got, least, most int) {
	if got < least || got > most {
		v.report(path, "must be between %d and %d, is %d", least, most, got)
	}
}

// allowed checks entries of allow, and refuses what the core gives to nobody.
func (v *validator) allowed(path string, use inventory.Use, entries []string, check func(string) error) {
	for i, entry := range entries {
		if err := check(entry); err != nil {
			v.check(itemPath(path, i), err)
			continue
		}
		never := inventory.NeverAllowed(use, entry)
		switch {
		case never == "":
		case inventory.IsDisk(use, strings.NewReplacer("*", "0", "?", "0").Replace(entry)):
			v.report(itemPath(path, i), "%s stands for disks, which are given by exact paths alone: list each that is needed", show(entry))
		default:
			v.report(itemPath(path, i), "%s stands for %s, which is given to nobody%s", show(entry), never, inventory.Instead(never))
		}
	}
}

func oneOf[T ~string](v *validator, path string, got T, allowed ...T) {
	if slices.Contains(allowed, got) {
		return
	}
	names := textsOf(allowed)
	v.report(path, "must be one of %s, is %s%s",
		strings.Join(names, ", "), show(string(got)), suggestion.Meant(string(got), names))
}

func textsOf[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
}

// The words of the fields for which a text alone may be meant; see mainFields.
var (
	acceptances  = []Acceptance{AcceptDeclared, RefuseDeclared}
	sampleModes  = []SampleMode{SampleAuto, SampleNever}
	policies     = []AllocationPolicy{AllocateBestLinks, AllocateSpread, AllocatePack, AllocateNone}
	sandboxModes = []sandbox.Mode{sandbox.Auto, sandbox.Required, sandbox.Off}
)
