package specs

import (
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// NetworkDriftFields are all that a Network can name in ignoreDrift, and PortDriftFields all that a NetworkPort can.
var (
	NetworkDriftFields = []cloudteamv1.NetworkDriftField{
		"name", "description", "adminState", "mtu", "portSecurity", "dnsDomain", "tags", "qosPolicy", "sharedWith", "shared",
		"external", "provider.segmentationID", "gateway", "allocationPools", "dhcp", "dnsServers", "hostRoutes",
		"serviceTypes", "dnsPublishFixedIP",
	}
	PortDriftFields = []cloudteamv1.PortDriftField{"name", "description", "adminState", "securityGroups",
		"allowedAddressPairs", "portSecurity", "qosPolicy", "dnsName"}
)

// drawManagement has nothing but an import observed, and nothing routed that is observed.
func drawManagement(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
	s.ManagementPolicy = rapid.SampledFrom([]cloudteamv1.ManagementPolicy{
		"", cloudteamv1.ManagementPolicyManage, cloudteamv1.ManagementPolicyObserve,
	}).Draw(t, "managementPolicy")
	if s.ManagementPolicy != cloudteamv1.ManagementPolicyObserve {
		return
	}
	if s.Import == nil {
		s.ManagementPolicy = ""
		return
	}
	s.Router = nil
}

func drawCloud(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	clouds := l.Clouds
	if oneIn(t, rarely/2, "the wrong cloud") && len(l.WrongClouds) > 0 {
		clouds = l.WrongClouds
	}
	if len(clouds) > 0 {
		s.Cloud = rapid.SampledFrom(clouds).Draw(t, "cloud").DeepCopy()
	}
}

// drawClass draws a class for a Network that has no cloud of its own.
func drawClass(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	if s.ClassName = ""; s.Cloud == nil && len(l.Classes) > 0 {
		s.ClassName = rapid.SampledFrom(l.Classes).Draw(t, "className")
	}
}

func drawDeletion(t *rapid.T, policy *cloudteamv1.DeletionPolicy) {
	*policy = rapid.SampledFrom([]cloudteamv1.DeletionPolicy{
		"", cloudteamv1.DeletionPolicyDelete, cloudteamv1.DeletionPolicyRetain,
	}).Draw(t, "deletionPolicy")
}

func drawDrift(t *rapid.T, policy *cloudteamv1.DriftPolicy) {
	*policy = rapid.SampledFrom([]cloudteamv1.DriftPolicy{
		"", cloudteamv1.DriftPolicyCorrect, cloudteamv1.DriftPolicyReport,
	}).Draw(t, "driftPolicy")
}

func drawIgnored[F comparable](t *rapid.T, fields ...F) []F {
	return orNil(rapid.SliceOfNDistinct(rapid.SampledFrom(fields), 0, len(fields), rapid.ID).Draw(t, "ignoreDrift"))
}
