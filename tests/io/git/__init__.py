"""Tests of the reading of repositories, hostile ones too."""
