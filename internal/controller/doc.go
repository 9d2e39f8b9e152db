// Package controller is what every controller here is made of: a Loop (event handlers that put keys on a workqueue,
// workers that take them off and sync), Expectations (a key is not synced from a cache that has not seen the key's last
// write), and conditions. Each controller is a package below this one.
package controller
