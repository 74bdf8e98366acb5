package device

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
)

// groupInUse is the fault of a function that VFIO has, or is to get by Prepare, while the kernel gives its IOMMU group
// to no container.
const groupInUse = "group-in-use"

// noIOMMU is the fault of a function that VFIO has without an IOMMU.
const noIOMMU = "no-iommu"

// groupError returns why the kernel gives the IOMMU group of an object of a device, of which these are all, to no
// container; nil for an object that is no function of VFIO. What Prepare binds to VFIO is not in the way itself.
func (s source) groupError(o *match.Object, device []*expression.Scope) error {
	f, binds, err := s.vfioFunction(o)
	if f == nil || err != nil {
		return err
	}
	var bound []string
	if binds {
		for _, other := range device {
			if of, err := other.Object.Function(); err == nil {
				bound = append(bound, of.Name)
			}
		}
	}
	group, err := f.IOMMUGroup()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // then it has no node of a group, which is a fault of its own
	}
	if err != nil {
		return err
	}
	if without, err := group.WithoutIOMMU(); err != nil || without && !s.givesNoIOMMU() {
		return cmp.Or(err, error(&noIOMMUError{f.Name}))
	}
	others, err := group.InUse(bound...)
	if err == nil && len(others) > 0 {
		err = &groupUsedError{group.Name, others}
	}
	return err
}

// vfioFunction returns the function of an object that VFIO has, or, with binds, is to get by Prepare; nil for none.
func (s source) vfioFunction(o *match.Object) (f *match.Function, binds bool, err error) {
	binds = slices.ContainsFunc(s.kind.Prepare, func(step description.CompiledStep) bool { return step.Bind != nil && match.IsVFIO(step.Bind.Driver) })
	f, err = o.Function()
	if err != nil || f.Dir != o.Dir && !binds {
		return nil, binds, nil //nolint:nilerr // an object that is no function
	}
	driver, err := f.Driver()
	if err != nil || !binds && !match.IsVFIO(driver) {
		return nil, binds, err
	}
	return f, binds, nil
}

// givesNoIOMMU reports whether the kind gives containers the nodes of groups without an IOMMU, which it says by their names.
func (s source) givesNoIOMMU() bool {
	return slices.ContainsFunc(s.kind.Nodes, func(n description.CompiledNode) bool {
		return n.Path != nil && strings.Contains(n.Path.Pattern(), "/noiommu-")
	})
}

// noIOMMUError is that VFIO has a function in its mode without an IOMMU.
type noIOMMUError struct{ function string }

// Error implements error.
func (e *noIOMMUError) Error() string {
	return fmt.Sprintf("VFIO has %s without an IOMMU (enable_unsafe_noiommu_mode), so the device could write to all of the node's memory: "+
		"it is given to no container; enable the IOMMU in the firmware and the kernel (intel_iommu=on), or give a kind of your own the node /dev/vfio/noiommu-{iommu.group}", e.function)
}

// groupUsedError is that other members of an IOMMU group are in use.
type groupUsedError struct {
	group  string
	others []string
}

// Error implements error.
func (e *groupUsedError) Error() string {
	return fmt.Sprintf("the kernel refuses the IOMMU group %s to containers while drivers of the node have other members of the group: %s; bind each of these to vfio-pci, or unbind it",
		e.group, strings.Join(e.others, ", "))
}

// groupHealth is groupError as a health; nil for none.
func (s source) groupHealth(o *match.Object, device []*expression.Scope) *sdk.Health {
	err := s.groupError(o, device)
	var used *groupUsedError
	var without *noIOMMUError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &without):
		return sdk.Fault(noIOMMU, sdk.RecoverySelf, err.Error())
	case errors.As(err, &used):
		return sdk.Fault(groupInUse, sdk.RecoverySelf, err.Error())
	}
	return sdk.Unknown(fmt.Sprintf("whether it has the fault %s cannot be read: %v", groupInUse, err))
}
