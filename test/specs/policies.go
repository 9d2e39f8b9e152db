package specs

import (
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

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
