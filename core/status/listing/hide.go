package listing

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Hash returns what stands for a pod ("pod") or a claim ("claim") of that name: 32 hexadecimal digits. Who may list
// pods finds the name with it; who may not can confirm a name that they guess, and no more.
func Hash(kind, namespace, name string) string {
	sum := sha256.Sum256([]byte(kind + "/" + namespace + "/" + name)) // names of Kubernetes have no slash
	return hex.EncodeToString(sum[:16])
}

// HideNames changes devices so that they can be shown to anybody: hashes are in the place of the names of pods and
// claims, and these are not in the messages of faults.
func HideNames(devices []Device) {
	all := make([][]Holder, len(devices))
	for i, d := range devices {
		all[i] = d.Holders
	}
	names := nameless(all)
	for i := range devices {
		devices[i].Holders, devices[i].Faults = hashed(devices[i].Holders), silent(devices[i].Faults, names)
	}
}

// HideNames does the same for telemetry.
func (t Telemetry) HideNames() {
	all := make([][]Holder, len(t.Devices))
	for i, d := range t.Devices {
		all[i] = d.Holders
	}
	names := nameless(all)
	for i := range t.Devices {
		t.Devices[i].Holders, t.Devices[i].Faults = hashed(t.Devices[i].Holders), silent(t.Devices[i].Faults, names)
	}
}

// nameless returns what takes the names of all holders out of a text.
func nameless(all [][]Holder) *strings.Replacer {
	var pairs []string
	for _, holders := range all {
		for _, h := range holders {
			if h.Pod != "" {
				pairs = append(pairs, h.Namespace+"/"+h.Pod, "(name hidden)")
			}
			if h.Claim != "" {
				pairs = append(pairs, h.Namespace+"/"+h.Claim, "(name hidden)")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

func hashed(holders []Holder) []Holder {
	hidden := make([]Holder, len(holders))
	for i, h := range holders {
		hidden[i] = Holder{Resource: h.Resource, Unit: h.Unit, Ending: h.Ending}
		if h.Pod != "" {
			hidden[i].PodHash = Hash("pod", h.Namespace, h.Pod)
		}
		if h.Claim != "" {
			hidden[i].ClaimHash = Hash("claim", h.Namespace, h.Claim)
		}
	}
	return hidden
}

func silent(faults []Fault, names *strings.Replacer) []Fault {
	quiet := make([]Fault, len(faults))
	for i, f := range faults {
		f.Message = names.Replace(f.Message)
		quiet[i] = f
	}
	return quiet
}
