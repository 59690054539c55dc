"""`Labeler`, the desk as a widget: which outcomes a person is asked for, with the run below."""
