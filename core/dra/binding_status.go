package dra

import (
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyresource "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/text"
)

// write writes the conditions of a driver's devices, unless the claim is allocated otherwise now. It applies these
// alone: a claim that is read and updated loses what this version of the API does not have.
func (b *binder) write(ctx context.Context, name types.NamespacedName, c *resourceapi.ResourceClaim, driver string, failure error) error {
	for {
		now, err := b.read(ctx, name)
		if err != nil || !sameAllocation(c, now) {
			return err
		}
		status := applyresource.ResourceClaimStatus()
		for _, r := range now.Status.Allocation.Devices.Results {
			if r.Driver == driver && b.isSlow(r) {
				status.WithDevices(conditionsOf(r, failure))
			}
		}
		applied := applyresource.ResourceClaim(name.Name, name.Namespace).WithUID(now.UID).WithStatus(status)
		if now.ResourceVersion != "" {
			applied.WithResourceVersion(now.ResourceVersion) // or another allocation may have come since
		}
		limited, cancel := context.WithTimeout(ctx, readLimit)
		_, err = b.frontend.opts.Client.ResourceV1().ResourceClaims(name.Namespace).ApplyStatus(limited, applied, metav1.ApplyOptions{FieldManager: driver, Force: true})
		cancel()
		if !apierrors.IsConflict(err) {
			return unwritten(err)
		}
	}
}

// unwritten explains why conditions were not written.
func unwritten(err error) error {
	if isRefused(err) {
		return fmt.Errorf("the agent's account needs the verb patch on resourceclaims/status and associated-node:patch on resourceclaims/driver, as the chart's ClusterRole has them: %w", err)
	}
	return err
}

// isRefused reports whether the agent lacks a permission to write conditions. From Kubernetes 1.36 on, that on
// resourceclaims/driver is checked with the claim, and lacking it is an error of its fields.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "resourceclaims/driver")
}

// conditionsOf returns the conditions of one device: it is prepared, or why it is not.
func conditionsOf(r resourceapi.DeviceRequestAllocationResult, failure error) *applyresource.AllocatedDeviceStatusApplyConfiguration {
	status := applyresource.AllocatedDeviceStatus().WithDriver(r.Driver).WithPool(r.Pool).WithDevice(r.Device)
	if r.ShareID != nil {
		status.WithShareID(string(*r.ShareID))
	}
	condition := func(kind string, is metav1.ConditionStatus, reason, message string) *applymetav1.ConditionApplyConfiguration {
		return applymetav1.Condition().WithType(kind).WithStatus(is).WithReason(reason).WithMessage(message).WithLastTransitionTime(metav1.Now())
	}
	if failure == nil {
		return status.WithConditions(condition(pool.ConditionPrepared, metav1.ConditionTrue, "Prepared", "the device is ready for the pod"))
	}
	message := text.Printable(failure.Error(), 4096)
	return status.WithConditions(
		condition(pool.ConditionPrepared, metav1.ConditionFalse, "PreparationFailed", message),
		condition(pool.ConditionFailed, metav1.ConditionTrue, "PreparationFailed", message))
}
