// Package cloudteam holds what all versions of the cloudteam.ztgame.com API group share.
package cloudteam

// GroupName is the API group of Network.
const GroupName = "cloudteam.ztgame.com"
